"""How background work runs: the loop of a service, a wake-up event, a duty cycle, a call in a new thread."""
