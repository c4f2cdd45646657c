"""What a reader asks of a queue: messages from an offset on, by tag, by time."""
