"""The demo command and its tables."""
