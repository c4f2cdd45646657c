"""Makes a damaged directory sound, or rebuilds what is derived from the log."""
