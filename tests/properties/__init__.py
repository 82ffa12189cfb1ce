"""A session against a plain model of it, by random calls."""
