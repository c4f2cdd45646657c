"""`mqstore groups`: the consumer groups of a store, and deleting one. Listing is safe on a live store.

    $ mqstore groups data
    group    retries  after           consumes  topics  lag
    billing       16  10s 30s 1m ...  yes            1    3

What is shown of retries is the broker's: a consumer's own limit and policy are not kept in a store. Groups
that have offsets but no settings are listed, too. Deleting acts only with --apply. `groups create` and
`groups update` are in group_settings.py.
"""

from collections.abc import Iterator
from pathlib import Path

import click

from mqstore.message_store import MessageStore
from mqstore.metadata.subscription_groups import SubscriptionGroupConfig
from mqstore.schedule.retry.retry_policy import retry_delays_ms
from mqstore.tools.cli.administration.applying import apply_option, end_of, open_to_apply
from mqstore.tools.cli.command import Command
from mqstore.tools.cli.exit_codes import ExitCode
from mqstore.tools.cli.open_store import open_for_reading
from mqstore.tools.cli.options import json_option, refuse_given, store_argument
from mqstore.tools.cli.output import Column, Output, Row
from mqstore.tools.cli.times import duration_text

__all__ = ["GroupRow", "delete_group", "group_rows", "groups", "show_groups"]

_WHOSE_RETRIES = "retries, after: the broker's; max_reconsume_times and retry_policy of a consumer come first"
_SHOWN_DELAYS = 3
_MOST_DELAYS = 64


class GroupRow(Row):
    """One group. What it has by settings is missing where it has none.

    retry_delays_ms: how long its retries wait, one after the other, at the delay levels of the store.
    """

    group: str
    retry_max_times: int | None
    retry_delays_ms: list[int] | None
    consume_enable: bool | None
    topics: int
    lag: int


class DeletedGroupRow(Row):
    """What a deletion removes."""

    group: str
    is_applied: bool
    has_settings: bool
    offsets: int
    lag: int


def _yes_or_no(claim: bool | None) -> str:
    return "" if claim is None else "yes" if claim else "no"


def _first_of(delays_ms: list[int] | None) -> str:
    """The first three, as the table of levels has them: `10s 30s 1m ...`."""
    shown = [duration_text(delay_ms) for delay_ms in (delays_ms or ())[:_SHOWN_DELAYS]]
    return " ".join(shown) + " ..." * (len(delays_ms or ()) > _SHOWN_DELAYS)


_COLUMNS = (
    Column[GroupRow]("group", lambda row: row.group),
    Column[GroupRow]("retries", lambda row: row.retry_max_times, "right"),
    Column[GroupRow]("after", lambda row: _first_of(row.retry_delays_ms)),
    Column[GroupRow]("consumes", lambda row: _yes_or_no(row.consume_enable)),
    Column[GroupRow]("topics", lambda row: row.topics, "right"),
    Column[GroupRow]("lag", lambda row: f"{row.lag:,}", "right"),
)


@click.command(cls=Command)
@store_argument
@click.option("--delete", metavar="GROUP", help="Delete this group.")
@click.option("--clean-offset", is_flag=True, help="With --delete: its offsets as well.")
@apply_option
@json_option
def groups(store: Path, delete: str | None, clean_offset: bool, apply: bool, json: bool) -> None:
    """List the consumer groups, or delete one: its settings, and with --clean-offset how far it has come.

    Retries are those of the broker, for consumers that bring no limit or policy of their own. A group that
    is deleted leaves its retry and dead-letter topics (mqstore topics --delete). Others: mqstore groups
    create, mqstore groups update. Exit code 1: not applied, or no such group.

    Example: mqstore groups data --delete billing --clean-offset --apply
    """
    output = Output(is_json=json)
    if delete is None:
        refuse_given("goes with --delete", "clean_offset", "apply")
        show_groups(output, store)
    else:
        delete_group(output, store, delete, clean_offset=clean_offset, apply=apply)


def show_groups(output: Output, path: Path) -> None:
    """List the groups of a store."""
    with open_for_reading(path) as opened:
        if output.listing(group_rows(opened), _COLUMNS):
            output.note(_WHOSE_RETRIES)


def delete_group(output: Output, path: Path, group: str, *, clean_offset: bool, apply: bool) -> None:
    """Delete a group, or show what that would delete. Exit code 1: not applied, or no such group."""
    with open_to_apply(path, output, apply=apply) as opened:
        row = _deleted(opened, group, clean_offset=clean_offset, is_applied=apply)
        if apply:
            opened.delete_subscription_group(group, clean_offset=clean_offset)
    is_there = row.has_settings or bool(row.offsets)
    _show(output, row, is_there=is_there)
    if not is_there:
        raise click.exceptions.Exit(ExitCode.PROBLEM)
    end_of(output, apply=apply, is_needed=True)


def group_rows(store: MessageStore) -> Iterator[GroupRow]:
    """The groups that have settings or offsets, by name."""
    lags = store.stats().consumer_lags
    names = {config.group_name for config in store.subscription_groups} | {row.group for row in lags}
    for group in sorted(names):
        config = store.subscription_groups.get(group)
        yield GroupRow(
            group=group,
            retry_max_times=config.retry_max_times if config is not None else None,
            retry_delays_ms=_delays_ms(store, config) if config is not None else None,
            consume_enable=config.consume_enable if config is not None else None,
            topics=len({row.topic for row in lags if row.group == group}),
            lag=sum(row.lag for row in lags if row.group == group),
        )


def _delays_ms(store: MessageStore, config: SubscriptionGroupConfig) -> list[int]:
    retries = max(0, min(config.retry_max_times, _MOST_DELAYS))
    return retry_delays_ms(config.group_retry_policy, retries, store.delay_levels)


def _deleted(store: MessageStore, group: str, *, clean_offset: bool, is_applied: bool) -> DeletedGroupRow:
    offsets = [row for row in store.consumer_offsets if row.group == group] if clean_offset else []
    return DeletedGroupRow(
        group=group,
        is_applied=is_applied,
        has_settings=group in store.subscription_groups,
        offsets=len(offsets),
        lag=sum(row.lag for row in store.stats().consumer_lags if row.group == group),
    )


def _show(output: Output, row: DeletedGroupRow, *, is_there: bool) -> None:
    if output.is_json:
        output.facts(row)
    elif not is_there:
        output.text(f"no group {row.group}")
    else:
        done = "deleted" if row.is_applied else "would delete"
        what = "its settings" if row.has_settings else "no settings"
        output.text(f"{done} group {row.group}: {what}, {row.offsets:,} offsets; {row.lag:,} messages behind")
