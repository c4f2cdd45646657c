"""Shutdowns of a file system amid synced writes: who writes, and what of the promises is kept."""
