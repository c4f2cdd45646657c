"""Consume queues: their entries, their files, where each one ends, which ones were lost."""
