"""Delay levels, the form in which a message waits, and the progress file delayOffset.json."""
