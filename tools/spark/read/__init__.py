"""Batch reads of segments: which ones, in which pieces, and their rows."""
