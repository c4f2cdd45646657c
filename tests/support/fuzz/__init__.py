"""Hostile stores: sound ones that are changed, what is asked of each, and the limits they run in."""
