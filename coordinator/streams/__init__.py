"""Reading what scripts write: hints, session logs, and the partitions' event streams."""
