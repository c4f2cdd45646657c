"""What producers and consumers ask: routes, sends, pulls, groups, offsets, locks, retries, transactions."""
