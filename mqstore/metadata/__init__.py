"""Topics, subscription groups and consumer offsets: RocketMQ's JSON tables."""
