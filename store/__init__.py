"""Bytes on disk: files, records, messages, the commit log and the small state files.

This folder itself has the modules that all layers use: errors, status, clock, config and a few more.
"""
