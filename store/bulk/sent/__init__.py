"""Batches as clients send them, stored by compiled loops without a Python object for any message."""
