"""Producers: which queue a message goes to, what is tried again, transactions."""
