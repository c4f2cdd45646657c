"""How long puts take that are due at fixed times: the load generator, the stores, and what came of them."""
