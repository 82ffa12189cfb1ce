"""Redis and the queue: the only package of the coordinator that imports them."""
