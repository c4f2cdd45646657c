"""Segments on their way into an archive: which are sealed, what is in each, and its upload."""
