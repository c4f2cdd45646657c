"""Finds the messages that are due and puts them back."""
