"""Stores and logs that tests begin with: small, filled, delayed, damaged."""
