"""Later and again: delays, their delivery, retries and dead letters."""
