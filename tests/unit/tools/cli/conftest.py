"""A small store of orders for the tests of the commands."""

from pathlib import Path

import pytest

from support.command_line import store_orders


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    path = tmp_path / "orders"
    store_orders(path)
    return path
