"""The seam to the disk: the real file system and one in memory, mapped files."""
