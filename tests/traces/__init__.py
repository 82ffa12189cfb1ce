"""The traces that a model check of the protocol found, each replayed against the real scripts."""
