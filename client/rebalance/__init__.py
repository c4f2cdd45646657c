"""How the members of a group share the queues."""
