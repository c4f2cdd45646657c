"""Rows of CSV, JSON and Parquet files, and the message that a row becomes."""
