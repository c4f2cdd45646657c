"""Brokers over the network: `mqstore serve`, or Apache RocketMQ, for the same producers and consumers."""
