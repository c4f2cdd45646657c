"""How background work runs: the loop of a service, an event that wakes it, a call in a thread of its own."""
