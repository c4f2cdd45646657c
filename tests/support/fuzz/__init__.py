"""Hostile stores: sound ones that are changed byte by byte, what is asked of each, and its limits."""
