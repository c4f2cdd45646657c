"""The definitions of the report: what each table counts, in words for its readers, and what no log tells.

The page and docs show these sentences; the tables themselves are made in retry_tables.py.
"""

from typing import Final, NamedTuple

__all__ = ["LIMITS", "TABLES", "TableDefinition"]


class TableDefinition(NamedTuple):
    """A table: its name in JSON, its title, what its rows are, and what its columns mean that need words."""

    name: str
    title: str
    meaning: str
    terms: tuple[tuple[str, str], ...] = ()


TABLES: Final = (
    TableDefinition(
        "attempts",
        "Failures per message",
        "Of each consumer group, how many messages it has failed on so many times. A failure leaves a copy "
        "of the message, and the copies of one message carry the id of its first record.",
        (
            ("failures", "what the last copy in the log counts."),
            (
                "no later failure",
                "the copy for the next attempt was delivered, and the group has not failed again since.",
            ),
            ("waiting", "the copy for the next attempt is not delivered yet."),
            ("dead", "the message went to the dead letters of the group."),
        ),
    ),
    TableDefinition(
        "recovery",
        "Time until the last attempt",
        "Of messages that failed and have no later failure: the time from the birth of the message, by the "
        "clock of its producer, to the delivery of the copy for its last attempt, by the clock of the "
        "broker. If that attempt succeeded, the message was consumed soon after; so this is the least time "
        "to success.",
        (
            ("median, p95", "half, and 95 of 100, took no longer; approximate."),
            ("most", "what the slowest took."),
        ),
    ),
    TableDefinition(
        "dead_letters",
        "Dead letters",
        "Records of the dead-letter topics.",
        (
            ("topic", "the one that the message was first sent to; ? if the record does not name it."),
            ("group", "the consumer group that gave up on it."),
            ("most failures", "of the message that failed most often."),
            ("first, last", "when the oldest and the newest of them died."),
        ),
    ),
    TableDefinition(
        "lateness",
        "Lateness of delayed delivery",
        "Records that wait or waited, retries among them, by delay level. A record is due at its store time "
        "and the delay of its level, by the table of levels that was in force. Its lateness is the store "
        "time of the delivered copy less that.",
        (
            ("delivered", "the copy is in the log; the times are of these."),
            (
                "not delivered",
                "no copy is in the log: the record waits, or was cancelled, or its topic refused it.",
            ),
            ("unknown", "the record has no id by which its copy could be found, or it is there twice."),
            ("median, p95, most", "as above."),
        ),
    ),
    TableDefinition(
        "growth",
        "Growth per topic",
        "Messages and bytes of records that the log holds, by store time. Copies for retries, waiting "
        "records and halves of transactions are records of their own topics.",
        (("bucket", "the length of the stretch of time that a row counts."),),
    ),
)
"""The tables, in the order in which they are shown."""

LIMITS: Final = (
    (
        "That a consumer succeeded leaves nothing in the log. A message without a later failure has "
        "succeeded, or is being worked on, or was never consumed: compare the group's offsets."
    ),
    "Messages on which no group failed are in the last table only.",
    (
        "What retention has deleted is not counted. A message whose first copies have expired shows the "
        "failures that its last copy counts, and one whose copies have all expired is not there."
    ),
    (
        "A retry or dead letter that names no first record, since somebody put it there without a "
        "send-back, is not among the failures per message; dead letters and growth count it."
    ),
    "Consumers that retry by themselves, such as orderly ones and those that broadcast, leave no copies.",
    (
        "A dead letter that was sent again keeps the id of its first record: its later failures count as "
        "those of the same message, and it stays dead."
    ),
    "Messages with a time of delivery of their own (RocketMQ's timer) are not in the table of lateness.",
)
"""What no log tells."""
