"""Events: log lines of consequence, with names and fields that do not change."""
