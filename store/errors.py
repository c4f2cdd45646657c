"""Errors: one root, and a leaf for each thing that a caller would do about it.

    StoreError                        catch this to catch everything of ours
    |- MessageIllegal (ValueError)    change the message; nothing was stored
    |  |- TopicIllegal                rename the topic
    |  |- QueueIllegal                use a queue that the topic has, or create the topic with more
    |  |- MessageTooLarge             split the body, or raise max_message_size
    |  |- PropertiesIllegal           shorten the properties, or take the separators out
    |  `- TimerNotEnabled             ask for a delay level instead of a time
    |- GroupIllegal (ValueError)      rename the consumer group
    |- ConfigIllegal (ValueError)     correct the setting
    |  |- DelayLevelIllegal           correct message_delay_level
    |  `- SettingContradicted         leave the setting out, or open the directory that it was written with
    |- TopicNotExist                  create the topic
    |- SubscriptionGroupNotExist      create the group
    |- TopicNotSupported              use a topic of an ordinary kind, or a RocketMQ broker
    |- AttributeIllegal (ValueError)  correct the attribute
    |- NoPermission                   change the topic's perm
    |- ConsumeNotEnabled              let the group consume again
    |- SubscriptionIllegal (ValueError)  name a tag, or * for all
    |- MessageNotFound                the record is not (or no longer) in the log
    |- DelayNotWaiting                nothing to cancel: it was delivered, or is cancelled, or never waited
    |- StoreClosed                    open the store again
    |  `- StoreForked                 this is a forked child: open the store in it
    |- StoreReadOnly                  open without read_only
    |- StoreLocked                    stop the other process, or open read_only
    |- StoreNotFound                  check the path
    |- FilesVanished                  try again, or keep files longer (file_reserved_time)
    |- StoreFull                      make room; puts resume by themselves
    |  |- BackupFull                  make room for the backup, or name a target on another disk
    |  `- LimitReached                free descriptors or memory, or raise the limit; puts resume, too
    |- StorePoisoned                  a sync failed: close, check the disk, open again (which recovers)
    |  `- StoreLockLost               stop, find the other writer, verify; then open again
    |- SegmentSizeMismatch            open with the size that the directory was written with
    |- CorruptRecord                  damage before the tail: nothing was deleted; salvage, or restore a copy
    |  `- RecordIllegal (ValueError)  these bytes, perhaps of a message that a reader got, are no record
    |- CorruptBody                    the producer's compressed bytes are wrong: read the body as stored
    |- BodyTooLarge                   decompress it with a larger limit, or read it as stored
    |- LogGapTooLong                  a segment's name, or the recovery point, claims too much: move it away
    |- UnknownVersion                 written by a newer release
    |- FileTooLong (OSError)          longer than any small file of ours or a broker's: move it away
    |- WrongFileKind (OSError)        something else is in the place of a file or directory: move it away
    |- BackupRefused (ValueError)     name another target
    |- BackupUnfinished               delete it, and make the backup again
    |- RepairRefused                  repair into another directory, or run the interrupted repair again
    `- StateFileCorrupt               restore the file or its .bak, or delete both to start from scratch

Further leaves stand where they are raised: QueueOffsetConflict, KeyIndexDamaged and KeyIndexUnusable in
index/, BrokerClosed and TransactionIllegal in broker/, those of clients (client/errors.py),
DeadLetterNotFound and DeadLetterNotSendable in client/dead_letters/, and those of Spark.

Each carries its facts as attributes and builds its message from them, and tells a broker which
`PutMessageStatus` and `ResponseCode` RocketMQ would answer. Foreign errors (OSError, lmdb.Error)
are translated where they enter.
"""

import os
from pathlib import Path
from typing import ClassVar

from mqstore.store.status import PutMessageStatus, ResponseCode

__all__ = [
    "AttributeIllegal",
    "BackupFull",
    "BackupRefused",
    "BackupUnfinished",
    "BodyTooLarge",
    "ConfigIllegal",
    "ConsumeNotEnabled",
    "CorruptBody",
    "CorruptRecord",
    "DelayLevelIllegal",
    "DelayNotWaiting",
    "FileTooLong",
    "FilesVanished",
    "GroupIllegal",
    "LimitReached",
    "LogGapTooLong",
    "MessageIllegal",
    "MessageNotFound",
    "MessageTooLarge",
    "NoPermission",
    "PropertiesIllegal",
    "QueueIllegal",
    "RecordIllegal",
    "RepairRefused",
    "SegmentSizeMismatch",
    "SettingContradicted",
    "StateFileCorrupt",
    "StoreClosed",
    "StoreError",
    "StoreForked",
    "StoreFull",
    "StoreLockLost",
    "StoreLocked",
    "StoreNotFound",
    "StorePoisoned",
    "StoreReadOnly",
    "SubscriptionGroupNotExist",
    "SubscriptionIllegal",
    "TimerNotEnabled",
    "TopicIllegal",
    "TopicNotExist",
    "TopicNotSupported",
    "UnknownVersion",
    "WrongFileKind",
]


class StoreError(Exception):
    """Root of all errors that mqstore raises on purpose. Its text is one printable line."""

    put_message_status: ClassVar[PutMessageStatus] = PutMessageStatus.UNKNOWN_ERROR
    response_code: ResponseCode = ResponseCode.SYSTEM_ERROR

    def __str__(self) -> str:
        text = super().__str__()
        if text.isprintable():
            return text
        # The name of a file, for instance, may hold any character.
        return "".join(
            character if character.isprintable() else character.encode("unicode_escape").decode()
            for character in text
        )


class MessageIllegal(StoreError, ValueError):
    """The message breaks a rule; nothing was stored. `value` is what broke it, `limit` the rule.

    row: which row of `put_columns` it is; None elsewhere.
    """

    put_message_status = PutMessageStatus.MESSAGE_ILLEGAL
    response_code = ResponseCode.MESSAGE_ILLEGAL

    def __init__(
        self, reason: str, *, value: object = None, limit: object = None, row: int | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.value = value
        self.limit = limit
        self.row = row


class TopicIllegal(MessageIllegal):
    """The topic is empty, too long, or has characters outside RocketMQ's set."""

    response_code = ResponseCode.INVALID_PARAMETER


class QueueIllegal(MessageIllegal):
    """The topic has no such queue."""

    response_code = ResponseCode.INVALID_PARAMETER


class MessageTooLarge(MessageIllegal):
    """The body or the record is larger than the store accepts."""


class PropertiesIllegal(MessageIllegal):
    """The properties are too long for the record, or hold a separator byte."""

    put_message_status = PutMessageStatus.PROPERTIES_SIZE_EXCEEDED


class TimerNotEnabled(MessageIllegal):
    """The message asks for a time of delivery, and this store has no timer."""

    put_message_status = PutMessageStatus.WHEEL_TIMER_NOT_ENABLE
    response_code = ResponseCode.SYSTEM_ERROR


class GroupIllegal(StoreError, ValueError):
    """The consumer group's name is empty, too long, or has characters outside RocketMQ's set."""

    response_code = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST

    def __init__(self, reason: str, *, value: object = None, limit: object = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.value = value
        self.limit = limit


class ConfigIllegal(StoreError, ValueError):
    """A setting is unknown or out of its bounds; the store was not opened."""

    def __init__(self, reason: str, *, key: str = "", value: object = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.key = key
        self.value = value


class DelayLevelIllegal(ConfigIllegal):
    """`message_delay_level` does not parse."""


class SettingContradicted(ConfigIllegal):
    """A setting is not what the directory was written with; nothing was changed.

    value: as given, or as `mqstore/settings` has it. found: what the directory has instead.
    """

    def __init__(self, reason: str, *, path: Path, key: str, value: object, found: object) -> None:
        super().__init__(reason, key=key, value=value)
        self.path = path
        self.found = found


class TopicNotExist(StoreError):
    """No such topic, and auto_create_topic_enable is off."""

    response_code = ResponseCode.TOPIC_NOT_EXIST

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"topic {topic!r} does not exist and auto_create_topic_enable is off: "
            "create it with store.topics.create(...)"
        )
        self.topic = topic


class TopicNotSupported(StoreError):
    """The topic is of a kind that a RocketMQ broker keeps and this store does not."""

    def __init__(self, topic: str, attribute: str, value: str) -> None:
        super().__init__(
            f"topic {topic!r} has {attribute} = {value}, which this store does not keep: use a topic without "
            "it, or let a RocketMQ broker take its messages"
        )
        self.topic = topic
        self.attribute = attribute
        self.value = value


class AttributeIllegal(StoreError, ValueError):
    """An attribute of a topic is unknown, has a value that it may not have, or may not change."""

    def __init__(self, topic: str, attribute: object, value: object, rule: str) -> None:
        stated = f"{attribute!r}" if value is None else f"{attribute!r} = {value!r}"
        super().__init__(f"attribute {stated} of topic {topic!r} {rule}")
        self.topic = topic
        self.attribute = attribute
        self.value = value
        self.rule = rule


class SubscriptionGroupNotExist(StoreError):
    """No such consumer group, and auto_create_subscription_group is off."""

    response_code = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST

    def __init__(self, group: str) -> None:
        super().__init__(
            f"consumer group {group!r} does not exist and auto_create_subscription_group is off: "
            "create it with store.subscription_groups.create(...)"
        )
        self.group = group


class NoPermission(StoreError):
    """The topic's permission bits forbid the operation."""

    response_code = ResponseCode.NO_PERMISSION

    def __init__(self, topic: str, perm: int, operation: str) -> None:
        super().__init__(f"topic {topic!r} has perm {perm}, which does not allow to {operation}")
        self.topic = topic
        self.perm = perm
        self.operation = operation


class ConsumeNotEnabled(StoreError):
    """The group's `consume_enable` is off."""

    response_code = ResponseCode.NO_PERMISSION

    def __init__(self, group: str) -> None:
        super().__init__(
            f"consumer group {group!r} may not consume, since its consume_enable is off: allow it with "
            f"store.subscription_groups.create({group!r}, consume_enable=True)"
        )
        self.group = group


class SubscriptionIllegal(StoreError, ValueError):
    """The subscription names no tag, so it would match nothing."""

    response_code = ResponseCode.SUBSCRIPTION_PARSE_FAILED

    def __init__(self, expression: str) -> None:
        super().__init__(
            f"the subscription {expression!r} names no tag: give tags separated by ||, or * for all messages"
        )
        self.expression = expression


class MessageNotFound(StoreError):
    """No readable record begins at this physical offset."""

    def __init__(self, physical_offset: int, min_offset: int, max_offset: int) -> None:
        super().__init__(
            f"no record begins at physical offset {physical_offset}: the log holds offsets "
            f"{min_offset} to {max_offset}"
        )
        self.physical_offset = physical_offset
        self.min_offset = min_offset
        self.max_offset = max_offset


class DelayNotWaiting(StoreError):
    """The record is no message that waits for its delivery; nothing was cancelled."""

    def __init__(self, physical_offset: int, reason: str) -> None:
        super().__init__(
            f"the record at physical offset {physical_offset} cannot be cancelled: {reason}. "
            "Those that can be are listed by `waiting_messages`, or `mqstore delay list`"
        )
        self.physical_offset = physical_offset
        self.reason = reason


class StoreClosed(StoreError):
    """The store was closed."""

    put_message_status = PutMessageStatus.SERVICE_NOT_AVAILABLE
    response_code = ResponseCode.SERVICE_NOT_AVAILABLE

    def __init__(self, path: Path) -> None:
        super().__init__(f"the store {path} is closed: open it again")
        self.path = path


class StoreForked(StoreClosed):
    """The process that opened the store has forked, and this is the child: here the store is closed."""

    def __init__(self, path: Path, opener_pid: int) -> None:
        StoreError.__init__(
            self,
            f"the store {path} was opened by process {opener_pid}, of which this one is a forked child: "
            "open it here, or with read_only=True beside that process",
        )
        self.path = path
        self.opener_pid = opener_pid


class StoreReadOnly(StoreError):
    """The store was opened with read_only=True."""

    put_message_status = PutMessageStatus.SERVICE_NOT_AVAILABLE
    response_code = ResponseCode.SERVICE_NOT_AVAILABLE

    def __init__(self, path: Path) -> None:
        super().__init__(f"the store {path} was opened with read_only=True: open it for writing")
        self.path = path


_USE_IT = (
    "use that MessageStore (all threads may), or close it first; to read beside it, open with read_only=True"
)
_READ_BESIDE_IT = (
    "stop that writer, or open with read_only=True. For several processes: `mqstore serve`, and a "
    "RemoteBroker in each"
)


class StoreLocked(StoreError):
    """Another writer holds the directory. `holder_pid` is None if it is not known.

    is_own: the writer is in this very process. way_out: what to do, where there is something better than
    to open the store for reading.
    """

    put_message_status = PutMessageStatus.SERVICE_NOT_AVAILABLE
    response_code = ResponseCode.SERVICE_NOT_AVAILABLE

    def __init__(
        self, path: Path, holder_pid: int | None, *, is_own: bool = False, way_out: str | None = None
    ) -> None:
        if is_own:
            message = f"{path}: this very process ({holder_pid}) has the store open already: "
            message += way_out or _USE_IT
        else:
            holder = f"process {holder_pid}" if holder_pid is not None else "another process"
            if holder_pid == os.getpid():
                holder += ", which is not this one but one of another container"
            message = f"{path} is locked by {holder}: {way_out or _READ_BESIDE_IT}"
        super().__init__(message)
        self.path = path
        self.holder_pid = holder_pid
        self.is_own = is_own


class StoreNotFound(StoreError):
    """A read-only open found no store at the path; `exists`: something else is there."""

    def __init__(self, path: Path, *, exists: bool = True) -> None:
        why = "there is no commitlog directory in it" if exists else "there is nothing of that name"
        super().__init__(f"{path} holds no store: {why}")
        self.path = path
        self.exists = exists


class FilesVanished(StoreError):
    """Files were deleted faster than a reader could list and read them; nothing was changed."""

    def __init__(self, path: Path, name: str, attempts: int) -> None:
        super().__init__(
            f"{path}: {name} was listed and is gone, and so were others at {attempts} attempts to list them "
            "again: the writer deletes files at once. Try again, or have it keep them longer "
            "(file_reserved_time)"
        )
        self.path = path
        self.name = name
        self.attempts = attempts


class StoreFull(StoreError):
    """The file system has no room for the next window of a file; nothing was written."""

    put_message_status = PutMessageStatus.SERVICE_NOT_AVAILABLE
    response_code = ResponseCode.SERVICE_NOT_AVAILABLE

    def __init__(self, path: Path, wanted_bytes: int, reason: str) -> None:
        super().__init__(
            f"cannot reserve {wanted_bytes} bytes for {path}: {reason}. Reads go on; "
            "puts resume by themselves once there is room"
        )
        self.path = path
        self.wanted_bytes = wanted_bytes


class LimitReached(StoreFull):
    """The process, or the system, has no descriptor or no memory left for a file; nothing was written."""

    def __init__(self, path: Path, reason: str) -> None:
        StoreError.__init__(
            self,
            f"cannot open or map {path}: {reason}. That is a limit of this process or of the system "
            "(ulimit -n, vm.max_map_count): free some, or raise it. Puts resume by themselves",
        )
        self.path = path
        self.wanted_bytes = 0


class BackupFull(StoreFull):
    """The target's disk has no room for the backup, which was deleted; the store itself is not affected."""

    def __init__(self, path: Path, wanted_bytes: int, reason: str) -> None:
        StoreError.__init__(
            self,
            f"the backup {path} was given up and deleted: {reason}. The store goes on; make room there, or "
            "name a target on another disk",
        )
        self.path = path
        self.wanted_bytes = wanted_bytes
        self.reason = reason


class BackupRefused(StoreError, ValueError):
    """A backup cannot be made there; nothing was changed."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"no backup can be made in {path}: {reason}")
        self.path = path
        self.reason = reason


class RepairRefused(StoreError):
    """A repair that cannot be done like that; nothing was changed."""


class BackupUnfinished(StoreError):
    """The directory is a backup that was cut short, or one that is under way."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is a backup that is not complete: unless one is under way, delete it and make it again"
        )
        self.path = path


class StorePoisoned(StoreError):
    """A sync or a write of the store failed; it accepts no more writes until it is opened again."""

    put_message_status = PutMessageStatus.SERVICE_NOT_AVAILABLE
    response_code = ResponseCode.SERVICE_NOT_AVAILABLE

    def __init__(self, path: Path, cause: BaseException) -> None:
        super().__init__(
            f"the store {path} stopped accepting writes after {type(cause).__name__}: {cause}. "
            "What is not acknowledged may be lost; check the disk, then open the store again"
        )
        self.path = path
        self.cause = cause


class StoreLockLost(StorePoisoned):
    """The writer has lost its lock on the directory, and writes nothing more."""

    def __init__(self, path: Path, how: str) -> None:
        StoreError.__init__(
            self,
            f"the store {path} has lost its lock: {how}. Another writer may be at work there, so this one "
            "stopped. What was put since then may be lost; close the store, make sure that nobody else has "
            "it open, run `mqstore verify`, then open it again",
        )
        self.path = path
        self.how = how
        self.cause = StoreError(how)


class SegmentSizeMismatch(StoreError):
    """A file of a row has another length than configured."""

    def __init__(self, path: Path, expected_bytes: int, found_bytes: int, key: str) -> None:
        super().__init__(
            f"{path} is {found_bytes} bytes long, but {key} is {expected_bytes}: "
            f"open the directory with the {key} that it was written with"
        )
        self.path = path
        self.expected_bytes = expected_bytes
        self.found_bytes = found_bytes
        self.key = key


class CorruptRecord(StoreError):
    """Bytes before the tail of the log are not what was written; nothing was changed."""

    path: Path | None
    position: int | None

    def __init__(self, path: Path, position: int, expected: str, found: str) -> None:
        super().__init__(
            f"{path} is damaged at byte {position}: expected {expected}, found {found}. "
            "Nothing was changed or deleted; `mqstore verify` shows all damage of the store, and "
            "`mqstore repair` keeps every whole message"
        )
        self.path = path
        self.position = position
        self.expected = expected
        self.found = found


class CorruptBody(StoreError):
    """A body is not compressed as its sys flag says. The record is whole: its producer sent it so."""

    def __init__(self, physical_offset: int, compression: str, stored_bytes: int, reason: str) -> None:
        super().__init__(
            f"the body of the record at physical offset {physical_offset} cannot be decompressed: "
            f"its sys flag says {compression}, and its {stored_bytes} bytes are not that: {reason}. "
            "Its producer sent it so; read it as it is stored (`stored_body`)"
        )
        self.physical_offset = physical_offset
        self.compression = compression
        self.stored_bytes = stored_bytes
        self.reason = reason


class BodyTooLarge(StoreError):
    """A compressed body would be longer than the reader's limit."""

    def __init__(self, physical_offset: int, compression: str, stored_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"the body of the record at physical offset {physical_offset}, "
            f"{stored_bytes} bytes of {compression}, decompresses to more than {limit_bytes} bytes: "
            "give a larger limit (`decompressed_body(max_bytes=...)`), or read it as stored (`stored_body`)"
        )
        self.physical_offset = physical_offset
        self.compression = compression
        self.stored_bytes = stored_bytes
        self.limit_bytes = limit_bytes


class RecordIllegal(CorruptRecord, ValueError):
    """Bytes that should be one record are none. Their file is not known here: path is None."""

    def __init__(self, expected: str, found: str) -> None:
        StoreError.__init__(
            self,
            f"these bytes are no whole record: expected {expected}, found {found}. "
            "`mqstore verify` finds the place, `mqstore repair` fills it",
        )
        self.path = None
        self.position = None
        self.expected = expected
        self.found = found


class LogGapTooLong(StoreError):
    """More segments are missing than is plausible, so some number is wrong; nothing was changed."""

    def __init__(self, start_offset: int, end_offset: int, segments: int) -> None:
        super().__init__(
            f"physical offsets {start_offset} to {end_offset} of the log are missing, {segments:,} segments, "
            "between its files, or before the end that mqstore/recovery-point records. Restore them, or "
            "move away what says that they existed: the file with the higher name, or that point"
        )
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.segments = segments


class UnknownVersion(StoreError):
    """A file of ours was written by a newer release."""

    def __init__(self, path: Path, expected: int, found: int) -> None:
        super().__init__(f"{path} has version {found}, and this release knows versions up to {expected}")
        self.path = path
        self.expected = expected
        self.found = found


class StateFileCorrupt(StoreError):
    """A state file and its .bak are both unreadable; nothing was changed."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} and its .bak cannot be read: {reason}. Restore one of them from a copy, or delete "
            "both to start this state from scratch"
        )
        self.path = path
        self.reason = reason


class FileTooLong(StoreError, OSError):
    """A file that is read whole is longer than any that a store or a broker writes; it was not read."""

    def __init__(self, path: Path, size_bytes: int, greatest_bytes: int) -> None:
        super().__init__(
            f"{path} is {size_bytes} bytes long, {greatest_bytes} is the most: restore it, or move it away"
        )
        self.path = path
        self.size_bytes = size_bytes
        self.greatest_bytes = greatest_bytes


class WrongFileKind(StoreError, OSError):
    """A FIFO, a device or a directory is in the place of a file, or a file in that of a directory."""

    def __init__(self, path: Path, found: str, expected: str = "a regular file") -> None:
        super().__init__(f"{path} is {found}, where {expected} belongs: move it away, or restore the store")
        self.path = path
        self.found = found
        self.expected = expected
