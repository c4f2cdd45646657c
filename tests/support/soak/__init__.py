"""The soak: producers and groups of consumers at work, killed and started again, and their judge."""
