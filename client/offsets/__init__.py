"""Where a consumer group begins, and where it keeps how far it has come."""
