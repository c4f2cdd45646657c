"""Ready Spark programs: the flights report."""
