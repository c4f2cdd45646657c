"""Fixtures of pytest: a store, or a broker for RocketMQ's clients, of each test's own.

pytest_plugins = ["mqstore.testing"]            in conftest.py
def test_orders(mqstore_server): ...            its address, and the open store
"""

from mqstore.testing.fixtures import ServedStore, mqstore_config, mqstore_server, mqstore_store

__all__ = ["ServedStore", "mqstore_config", "mqstore_server", "mqstore_store"]
