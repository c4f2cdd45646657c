"""Apache RocketMQ beside mqstore: its broker and stores as processes, and the scenes that both play."""
