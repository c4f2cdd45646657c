"""Consumers: what is pulled and cached, what a listener answers, the push consumer."""
