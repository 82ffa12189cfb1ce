"""What the tests share: servers, faults, processes, and a view of the whole keyspace."""
