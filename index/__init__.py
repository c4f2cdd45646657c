"""Derived from the commit log and rebuildable; the dispatcher brings the log to all of it."""
