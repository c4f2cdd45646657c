"""Bytes on disk: files, records, messages, the commit log and the small state files.

The words that all layers use lie here beside the rooms: errors, status, clock, config.
"""
