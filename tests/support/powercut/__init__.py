"""Power cuts of real file systems: a recorded disk, the worker on it, the cuts, their judge."""
