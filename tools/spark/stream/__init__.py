"""Streams: the messages of a store as they come, for `readStream`; what a batch of a stream holds is read by `read`."""
