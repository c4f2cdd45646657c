"""The ways to send: one attempt, attempts that follow one another, asynchronous sends, hooks."""
