"""Send-back of failed messages, retry policies, dead letters."""
