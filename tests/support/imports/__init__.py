"""Writes of the Spark sink without Spark: rows that are staged, and a commit that is killed."""
