"""`mqstore topics create` and `mqstore topics update`: a topic's queues, permission and attributes.

    $ mqstore topics create data orders --queues 4 --attribute +message.type=FIFO --apply
    created topic orders: attributes {"message.type": "FIFO"}, perm RW, readQueueNums 4, writeQueueNums 4
    $ mqstore topics update data orders --perm R --apply
    updated topic orders: perm RW -> R

Both act only with --apply, and then need the store for themselves. Listing and deleting are in topics.py.
"""

from collections.abc import Sequence
from pathlib import Path

import click

from mqstore.message_store import MessageStore
from mqstore.metadata.topics import Perm, TopicConfig
from mqstore.tools.cli.administration.applying import apply_option, no_topic, open_to_apply
from mqstore.tools.cli.administration.setting_changes import ChangedRow, show_change
from mqstore.tools.cli.command import Command
from mqstore.tools.cli.exit_codes import ToolProblem
from mqstore.tools.cli.options import json_option, store_argument, together, topic_argument
from mqstore.tools.cli.output import Output

__all__ = ["create_topic", "update_topic"]

_PERMS = {
    "RW": Perm.READ | Perm.WRITE,
    "R": Perm.READ,
    "W": Perm.WRITE,
    "6": Perm.READ | Perm.WRITE,
    "4": Perm.READ,
    "2": Perm.WRITE,
}


def _perm(text: str) -> Perm:
    perm = _PERMS.get(text.upper())
    if perm is None:
        raise click.BadParameter(f"{text!r} is none: give RW (6), R (4) or W (2)")
    return perm


_settings = together(
    click.option("--queues", type=int, metavar="N", help="Queues to read and to write."),
    click.option("--read-queues", type=int, metavar="N", help="Queues that consumers read."),
    click.option("--write-queues", type=int, metavar="N", help="Queues that producers put to."),
    click.option("--perm", type=_perm, metavar="RW|R|W|6|4|2", help="Who may: R to read, W to write."),
    click.option(
        "--attribute",
        multiple=True,
        metavar="+NAME=VALUE",
        help="Set an attribute, or with -NAME remove it. Repeatable.",
    ),
)


class ChangedTopicRow(ChangedRow):
    """A topic's settings before and after."""

    topic: str


@click.command(cls=Command)
@store_argument
@topic_argument
@_settings
@apply_option
@json_option
def create_topic(
    store: Path,
    topic: str,
    queues: int | None,
    read_queues: int | None,
    write_queues: int | None,
    perm: Perm | None,
    attribute: tuple[str, ...],
    apply: bool,
    json: bool,
) -> None:
    """Create a topic: with 8 queues to read and to write, and permission RW, unless told otherwise.

    Exit code 1: not applied, or the topic is there.

    Example: mqstore topics create data orders --queues 4 --apply
    """
    changes = _Changes(queues, read_queues, write_queues, perm, attribute)
    changes.run(Output(is_json=json), store, topic, is_new=True, apply=apply)


@click.command(cls=Command)
@store_argument
@topic_argument
@_settings
@apply_option
@json_option
def update_topic(
    store: Path,
    topic: str,
    queues: int | None,
    read_queues: int | None,
    write_queues: int | None,
    perm: Perm | None,
    attribute: tuple[str, ...],
    apply: bool,
    json: bool,
) -> None:
    """Change settings of a topic. What is not named stays as it is.

    Exit code 1: not applied, or no such topic.

    Example: mqstore topics update data orders --perm R --apply
    """
    changes = _Changes(queues, read_queues, write_queues, perm, attribute)
    if changes.are_none:
        raise click.BadParameter(
            "name what to change: --queues, --read-queues, --write-queues, --perm or --attribute"
        )
    changes.run(Output(is_json=json), store, topic, is_new=False, apply=apply)


class _Changes:
    """The settings that the command line names; None for the others."""

    def __init__(
        self,
        queues: int | None,
        read_queues: int | None,
        write_queues: int | None,
        perm: Perm | None,
        attributes: Sequence[str],
    ) -> None:
        if queues is not None and (read_queues, write_queues) != (None, None):
            raise click.BadParameter("give --queues for both, or --read-queues and --write-queues")
        self._read_queue_nums = read_queues if queues is None else queues
        self._write_queue_nums = write_queues if queues is None else queues
        self._perm = perm
        self._attributes = _attributes(attributes)

    @property
    def are_none(self) -> bool:
        """Whether nothing is to be changed."""
        numbers = (self._read_queue_nums, self._write_queue_nums, self._perm)
        return numbers == (None, None, None) and not self._attributes

    def run(self, output: Output, path: Path, topic: str, *, is_new: bool, apply: bool) -> None:
        """Create or change the topic. Raises what TopicConfigs.create raises, in a dry run too."""
        with open_to_apply(path, output, apply=apply) as opened:
            before = opened.topics.get(topic)
            after = self._changed(opened, topic)
            _check_is_there(path, topic, before, is_new=is_new)
            hidden = _hidden_messages(opened, before, after)
            if apply and before != after:
                opened.topics.replace(topic, after)
        if hidden:
            first = after.read_queue_nums
            output.note(f"queues {first:,} and above hold {hidden:,} messages, which no consumer gets then")
        row = ChangedTopicRow(
            topic=topic,
            is_applied=apply,
            before=None if before is None else before.encode(),
            after=after.encode(),
        )
        show_change(output, row, "topic", topic, TopicConfig().encode())

    def _changed(self, store: MessageStore, topic: str) -> TopicConfig:
        return store.topics.with_changes(
            topic,
            read_queue_nums=self._read_queue_nums,
            write_queue_nums=self._write_queue_nums,
            perm=self._perm,
            attributes=self._attributes,
        )


def _attributes(changes: Sequence[str]) -> dict[str, str]:
    """`+name=value` or `name=value` sets, `-name` removes, as mqadmin has it."""
    found: dict[str, str] = {}
    for change in changes:
        name, separator, value = change.partition("=")
        if bool(separator) == name.startswith("-"):
            raise click.BadParameter(f"--attribute {change}: give +NAME=VALUE, or -NAME to remove it")
        if name in found:
            raise click.BadParameter(f"--attribute {change}: {name} is named twice: name it once")
        found[name] = value
    return found


def _check_is_there(path: Path, topic: str, before: TopicConfig | None, *, is_new: bool) -> None:
    if is_new and before is not None:
        raise ToolProblem(f"topic {topic} is there already: mqstore topics update {path} {topic} changes it")
    if not is_new and before is None:
        raise no_topic(path, topic)


def _hidden_messages(store: MessageStore, before: TopicConfig | None, after: TopicConfig) -> int:
    """Messages in queues that consumers could read until now, and cannot afterwards."""
    if before is None:
        return 0
    queue_ids = range(after.read_queue_nums, before.read_queue_nums)
    topic = before.topic_name
    return sum(
        store.get_max_offset_in_queue(topic, queue_id) - store.get_min_offset_in_queue(topic, queue_id)
        for queue_id in queue_ids
    )
