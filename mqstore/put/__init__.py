"""The put path: one message, a list, columns; and the announcement of messages that arrived."""
