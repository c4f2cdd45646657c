"""All consume queues of a store, rebuilt from its log by many tasks."""
