"""RocketMQ's hash index files, used as a key index."""
