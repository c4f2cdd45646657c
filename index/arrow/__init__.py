"""A range of a queue as Arrow columns."""
