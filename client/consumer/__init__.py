"""Consumers: what a listener answers, where a group begins, the push consumer."""
