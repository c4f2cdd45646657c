"""Commands about a directory: verify, repair, rebuild, dump, stats."""
