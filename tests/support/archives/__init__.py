"""Places for archives in tests: a server of S3's protocol on the loopback, and one that misbehaves."""
