"""Streams: the messages of a store as they come, in batches that `read` plans and decodes."""
