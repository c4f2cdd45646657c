"""The key index: its contract, sorted runs of hashes in LMDB, and one in memory."""
