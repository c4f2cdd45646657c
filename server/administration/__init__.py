"""What mqadmin and the dashboard ask: topics, groups, progress, connections, the state of the broker."""
