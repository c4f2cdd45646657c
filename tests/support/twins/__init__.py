"""Plain twins: what compiled loops and fast paths do, written the obvious way."""
