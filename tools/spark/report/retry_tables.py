"""The retry tables: what a log tells of failures, dead letters, delays and growth, as DataFrames.

A failure leaves a copy of the message: for the next attempt in SCHEDULE_TOPIC_XXXX, and when that is due in
`%RETRY%group`; or in `%DLQ%group`. All copies carry ORIGIN_MESSAGE_ID, the id of the first record, so a
message that failed is known by store, group and that id. Reconsume times count its failures. That a consumer
succeeded leaves nothing in the log. What each column means: definitions.py.

Two passes over the log: one of narrow columns for the growth, one with properties. Both are kept by Spark for
the tables that are made of them (`persist`); `RetryTables.unpersist` lets them go.
Source: schedule/retry/send_back.py, schedule/delay/delayed_message.py.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mqstore.index.queue.consume_queue_format import MISSING_LEVEL_DELAY_MS
from mqstore.settings.directory_config import tool_config
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.message.topic_names import (
    DLQ_GROUP_TOPIC_PREFIX,
    RETRY_GROUP_TOPIC_PREFIX,
    SCHEDULE_TOPIC,
)
from mqstore.store.record.properties_format import ORIGIN_MESSAGE_ID, REAL_TOPIC, RETRY_TOPIC, UNIQ_KEY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["RetryTables", "retry_tables"]

_MINUTE_MS: Final = 60_000
_BUCKETS_MS: Final = (_MINUTE_MS, 10 * _MINUTE_MS, 60 * _MINUTE_MS, 1_440 * _MINUTE_MS)
_MOST_BUCKETS: Final = 200
_ACCURACY: Final = 10_000


class RetryTables(NamedTuple):
    """The tables. What they are made of stays in Spark's memory until `unpersist`."""

    attempts: "DataFrame"
    recovery: "DataFrame"
    dead_letters: "DataFrame"
    lateness: "DataFrame"
    growth: "DataFrame"
    kept: "tuple[DataFrame, ...]"

    def unpersist(self) -> None:
        """Let go of what the tables are made of."""
        for frame in self.kept:
            frame.unpersist()


def retry_tables(session: "SparkSession", stores: Sequence[str | Path]) -> RetryTables:
    """The tables of the logs of `stores`. Raises StoreNotFound, and when they are used what reading does."""
    from mqstore.tools.spark.options import ReadOptions
    from mqstore.tools.spark.read.read_plan import stores_of

    options = {"paths": json.dumps([str(store) for store in stores])}
    paths = stores_of(ReadOptions.parse(options))
    copies = _copies(session, options, paths).persist()
    minutes = _minutes(session, options).persist()
    messages = _failed_messages(copies)
    return RetryTables(
        attempts=_attempts(messages),
        recovery=_recovery(messages),
        dead_letters=_dead_letters(copies),
        lateness=_lateness(copies),
        growth=_growth(minutes),
        kept=(copies, minutes),
    )


def _load(session: "SparkSession", options: dict[str, str], columns: str) -> "DataFrame":
    return session.read.format("mqstore").options(**options).option("columns", columns).load()


# -- the two passes ------------------------------------------------------------------------------------


def _minutes(session: "SparkSession", options: dict[str, str]) -> "DataFrame":
    """Messages and bytes of each topic in each minute."""
    from pyspark.sql import functions as sql

    frame = _load(session, options, "topic, storeSize, storeTimestampMs")
    minute = (sql.floor(frame.storeTimestampMs / _MINUTE_MS) * _MINUTE_MS).alias("minute_ms")
    return frame.groupBy("topic", minute).agg(
        sql.count("*").alias("messages"), sql.sum("storeSize").alias("bytes")
    )


def _copies(session: "SparkSession", options: dict[str, str], paths: Sequence[Path]) -> "DataFrame":
    """Records that wait or that waited, and dead letters: what each is, of which message.

    home: the topic that a waiting or delivered record is for. is_waiting: it lies in SCHEDULE_TOPIC_XXXX.
    due_ms: of a waiting one, its store time and the delay of its level.
    """
    from pyspark.sql import functions as sql

    columns = "store, topic, queueId, physicalOffset, tags, properties, reconsumeTimes"
    frame = _load(session, options, f"{columns}, bornTimestampMs, storeTimestampMs")
    real_topic = frame.properties[REAL_TOPIC]
    is_waiting = frame.topic == SCHEDULE_TOPIC
    is_retry = frame.topic.startswith(RETRY_GROUP_TOPIC_PREFIX)
    is_dead = frame.topic.startswith(DLQ_GROUP_TOPIC_PREFIX)
    home = sql.when(is_waiting, real_topic).otherwise(frame.topic)
    known = frame.where(is_waiting | is_retry | is_dead | (real_topic == frame.topic))
    group = sql.regexp_extract(home, f"^(?:{RETRY_GROUP_TOPIC_PREFIX}|{DLQ_GROUP_TOPIC_PREFIX})(.*)$", 1)
    delay_ms = _delay_ms(frame, paths)
    return known.select(
        "store",
        home.alias("home"),
        sql.when(group != "", group).alias("group"),
        is_waiting.alias("is_waiting"),
        is_dead.alias("is_dead"),
        sql.coalesce(frame.properties[RETRY_TOPIC], sql.lit("?")).alias("origin"),
        frame.properties[ORIGIN_MESSAGE_ID].alias("origin_id"),
        sql.coalesce(frame.properties[ORIGIN_MESSAGE_ID], frame.properties[UNIQ_KEY]).alias("identity"),
        frame.tags,
        frame.reconsumeTimes.alias("failures"),
        frame.bornTimestampMs.alias("born_ms"),
        frame.storeTimestampMs.alias("stored_ms"),
        sql.when(is_waiting, frame.queueId + 1).alias("level"),
        sql.when(is_waiting, delay_ms).alias("delay_ms"),
    )


def _delay_ms(frame: "DataFrame", paths: Sequence[Path]) -> "Column":
    """The delay of a waiting record, by the table that was in force where it lies in the log of its store."""
    from pyspark.sql import functions as sql

    delay = sql.lit(None).cast("long")
    for path in paths:
        tables = tool_config(OsFileSystem(), path).delays.as_array().tolist()
        for number, (begin, *levels) in enumerate(tables):
            delays = [ms if ms >= 0 else MISSING_LEVEL_DELAY_MS for ms in levels]
            # The first table holds for what is before it, too, as in dispatch.
            in_force = (frame.store == str(path)) & (frame.physicalOffset >= (begin if number else 0))
            level = sql.least(sql.greatest(frame.queueId + 1, sql.lit(1)), sql.lit(len(delays)))
            found = sql.element_at(sql.array(*map(sql.lit, delays)), level).cast("long")
            delay = sql.when(in_force, found).otherwise(delay)
    return delay


# -- the tables ----------------------------------------------------------------------------------------


def _failed_messages(copies: "DataFrame") -> "DataFrame":
    """A row for each message that a group failed on."""
    from pyspark.sql import functions as sql

    of_groups = copies.where(copies.group.isNotNull() & copies.origin_id.isNotNull())
    is_retry = ~of_groups.is_waiting & ~of_groups.is_dead
    messages = of_groups.groupBy("store", "group", "origin_id").agg(
        sql.max("failures").alias("failures"),
        sql.max("is_dead").alias("is_dead"),
        sql.max(sql.when(of_groups.is_waiting, of_groups.failures)).alias("last_waiting"),
        sql.max(sql.when(is_retry, of_groups.failures)).alias("last_retry"),
        sql.min("born_ms").alias("born_ms"),
        sql.max(sql.when(is_retry, of_groups.stored_ms)).alias("last_retry_ms"),
    )
    waits = ~messages.is_dead & (
        sql.coalesce(messages.last_waiting, sql.lit(0)) > sql.coalesce(messages.last_retry, sql.lit(0))
    )
    outcome = sql.when(messages.is_dead, "dead").when(waits, "waiting").otherwise("no later failure")
    return messages.withColumn("outcome", outcome)


def _attempts(messages: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as sql

    def of(outcome: str) -> "Column":
        return sql.count_if(messages.outcome == outcome)

    return (
        messages.groupBy("group", "failures")
        .agg(
            sql.count("*").alias("messages"),
            of("no later failure").alias("no_later_failure"),
            of("waiting").alias("waiting"),
            of("dead").alias("dead"),
        )
        .orderBy("group", "failures")
    )


def _recovery(messages: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as sql

    done = messages.where((messages.outcome == "no later failure") & messages.last_retry_ms.isNotNull())
    took_ms = done.last_retry_ms - done.born_ms
    return done.groupBy("group").agg(sql.count("*").alias("messages"), *_spread(took_ms)).orderBy("group")


def _dead_letters(copies: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as sql

    dead = copies.where(copies.is_dead)
    return (
        dead.groupBy(dead.origin.alias("topic"), "group", "tags")
        .agg(
            sql.count("*").alias("dead_letters"),
            sql.max("failures").alias("most_failures"),
            sql.min("stored_ms").alias("first_ms"),
            sql.max("stored_ms").alias("last_ms"),
        )
        .orderBy(sql.desc("dead_letters"), "topic", "group", "tags")
    )


def _lateness(copies: "DataFrame") -> "DataFrame":
    """Each waiting record with its delivered copy: same store, home, identity and number of failures."""
    from pyspark.sql import functions as sql

    key = ("store", "home", "identity", "failures")
    waiting = copies.where(copies.is_waiting).drop("group")
    delivered = (
        copies.where(~copies.is_waiting & ~copies.is_dead & copies.identity.isNotNull())
        .groupBy(*key)
        .agg(sql.min("stored_ms").alias("delivered_ms"))
    )
    alone = (
        waiting.where(waiting.identity.isNotNull())
        .groupBy(*key)
        .agg(
            sql.count("*").alias("copies"),
            *[sql.max(name).alias(name) for name in ("level", "delay_ms", "stored_ms")],
        )
    )
    pairs = alone.where(alone.copies == 1).join(delivered, [*key], "left")
    late_ms = pairs.delivered_ms - pairs.stored_ms - pairs.delay_ms
    found = pairs.groupBy("level", "delay_ms").agg(
        sql.count("delivered_ms").alias("delivered"),
        sql.count_if(pairs.delivered_ms.isNull()).alias("not_delivered"),
        *_spread(late_ms),
    )
    totals = waiting.groupBy("level", "delay_ms").agg(sql.count("*").alias("records"))
    joined = totals.join(found, ["level", "delay_ms"], "left").fillna(0, ["delivered", "not_delivered"])
    unknown = (joined.records - joined.delivered - joined.not_delivered).alias("unknown")
    spread = ("median_ms", "p95_ms", "most_ms")
    return joined.select(
        "level", "delay_ms", "records", "delivered", "not_delivered", unknown, *spread
    ).orderBy("level", "delay_ms")


def _spread(value: "Column") -> "list[Column]":
    from pyspark.sql import functions as sql

    return [
        sql.percentile_approx(value, 0.5, _ACCURACY).alias("median_ms"),
        sql.percentile_approx(value, 0.95, _ACCURACY).alias("p95_ms"),
        sql.max(value).alias("most_ms"),
    ]


def _growth(minutes: "DataFrame") -> "DataFrame":
    """The growth in buckets of a minute, ten, an hour or a day: as fine as keeps their number below 200."""
    from pyspark.sql import functions as sql

    ends: Any = minutes.agg(sql.min("minute_ms"), sql.max("minute_ms")).first()
    span_ms = ends[1] - ends[0] if ends is not None and ends[0] is not None else 0
    bucket_ms = next((ms for ms in _BUCKETS_MS if span_ms <= ms * _MOST_BUCKETS), _BUCKETS_MS[-1])
    begin = (sql.floor(minutes.minute_ms / bucket_ms) * bucket_ms).alias("begin_ms")
    return (
        minutes.groupBy("topic", begin, sql.lit(bucket_ms).cast("long").alias("bucket_ms"))
        .agg(sql.sum("messages").alias("messages"), sql.sum("bytes").alias("bytes"))
        .orderBy("topic", "begin_ms")
    )
