"""Running `mqstore` in a test, and a small store for it to look at."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from click.testing import CliRunner, Result

from mqstore.message_store import MessageStore
from mqstore.store.config import StoreConfig
from mqstore.store.message.message import Message
from mqstore.tools.cli.command_table import app

__all__ = ["ORDER_CONFIG", "json_lines", "run", "store_orders"]

ORDER_CONFIG = StoreConfig(
    mapped_file_size_commit_log=131_072, mapped_file_size_consume_queue=2_000, max_message_size=65_000
)
"""Small files, so that nothing works by having guessed the defaults."""


def run(*arguments: object, stdin: str | bytes = b"", env: Mapping[str, str] | None = None) -> Result:
    """Run a command as from a shell; the arguments as text. env: variables beside those that there are."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin, env=env)


def json_lines(result: Result) -> list[dict[str, Any]]:
    """The objects that a command wrote."""
    assert result.exit_code == 0, result.stderr
    return [msgspec.json.decode(line) for line in result.stdout.splitlines()]


def store_orders(path: Path, bodies: Sequence[bytes] = ()) -> None:
    """Write a store with orders in two queues: o-0, o-2, o-4 in the first, o-1, o-3, o-5 in the second.

    Tags created and paid in turn; the last body is not UTF-8.
    """
    bodies = bodies or [*(b'{"id": %d}' % number for number in range(5)), b"\xff\x00"]
    with MessageStore.open(path, ORDER_CONFIG) as store:
        store.topics.create("orders", 2)
        store.put_messages([_order(number, body) for number, body in enumerate(bodies)])


def _order(number: int, body: bytes) -> Message:
    tag = ("created", "paid")[number % 2]
    return Message("orders", body, tags=tag, keys=(f"o-{number}",), queue_id=number % 2)
