"""Segments: which there are, in a store and in its archive, where each ends, and the records of one."""
