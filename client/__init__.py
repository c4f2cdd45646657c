"""Producers and consumers with RocketMQ's behaviour, for programs that hold a MessageStore."""
