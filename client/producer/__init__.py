"""Producers: sends and what is tried again, asynchronous sends, batches, transactions, requests."""
