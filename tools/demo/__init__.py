"""The demo's job: 336,776 flights through topics, retries and dead letters, and their audit."""
