"""The put path: one message, a list, columns; and who is told that messages arrived."""
