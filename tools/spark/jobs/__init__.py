"""Ready Spark programs, the session and the errors of each: flights report, segment check, export."""
