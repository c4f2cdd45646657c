"""Which queue a message is sent to: the queues of a topic, the choice among them, brokers that failed."""
