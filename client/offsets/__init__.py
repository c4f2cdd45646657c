"""Where a consumer group keeps how far it has come."""
