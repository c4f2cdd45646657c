"""The commit log: append, flush, recover, expire."""
