"""Checks every byte of a store directory against its log, and changes nothing."""
