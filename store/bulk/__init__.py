"""Thousands of messages at once, as columns that compiled loops encode."""
