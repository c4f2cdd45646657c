"""Dead letters for operators: list, show, send again, purge."""
