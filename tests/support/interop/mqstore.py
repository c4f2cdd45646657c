"""mqstore as tests/interop/ talks to it: `python -m support.interop.mqstore`, one JSON object a line.

The twin of tests/interop/driver/: the same operations, the same fields, so that what both answer can be
compared as it is.
"""

import base64
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mqstore import Message, MessageStore, StoreConfig
from mqstore.metadata.subscription_groups import SubscriptionGroupConfig
from mqstore.metadata.topics import TopicConfig
from mqstore.store.errors import StoreError
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.host import Host

__all__ = ["Operations", "encode_host"]

Json = dict[str, Any]


class Operations:
    """What can be asked of one store."""

    def __init__(self) -> None:
        self._store: MessageStore | None = None

    @property
    def store(self) -> MessageStore:
        assert self._store is not None, "no store is open"
        return self._store

    def open(self, path: str, settings: Json) -> dict[str, int]:
        assert self._store is None, "close the other store first"
        settings = dict(settings)
        read_only, start = settings.pop("read_only", False), settings.pop("start", True)
        config = StoreConfig.from_mapping(settings)
        self._store = MessageStore.open(Path(path), config, read_only=read_only, start=start)
        # As RocketMQ's store is put to: below where a broker, or our store, makes dead letters of retries.
        self._store._puts._divert = lambda message, is_in_order: message  # type: ignore[method-assign]
        return self.range()

    def close(self) -> None:
        store, self._store = self.store, None
        store.close()

    def range(self) -> dict[str, int]:
        return {"min_offset": self.store.min_offset, "max_offset": self.store.max_offset}

    def put(self, messages: list[Json]) -> list[Json]:
        return [self._put(message) for message in messages]

    def _put(self, message: Json) -> Json:
        try:
            if "batch" in message:
                results = self.store.put_messages(
                    [_message(message | element) for element in message["batch"]]
                )
            else:
                results = [self.store.put_message(_message(message))]
        except StoreError as error:
            return {"status": error.put_message_status.name, "reason": str(error)}
        first = results[0]
        return {
            "status": first.status.name,
            "physical_offset": first.physical_offset,
            "queue_offset": first.queue_offset,
            "size_bytes": sum(result.store_size for result in results),
            "store_timestamp": first.store_timestamp,
        }

    def queues(self) -> list[Json]:
        # Any question about a queue lets the dispatcher catch up first.
        self.store.get_max_offset_in_queue("", 0)
        return [self._queue(topic, queue_id) for topic, queue_id in self.store.consume_queues.queues()]

    def _queue(self, topic: str, queue_id: int) -> Json:
        queue = self.store.consume_queues.find(topic, queue_id)
        assert queue is not None
        entries: list[Any] = []
        while part := queue.entries_from(queue.min_offset + len(entries), 1 << 20).tolist():
            entries += part
        return {
            "topic": topic,
            "queue_id": queue_id,
            "min_offset": queue.min_offset,
            "max_offset": queue.max_offset,
            "entries": entries,
        }

    def news(self, **request: int) -> Json:
        at, end = request["from"], self.store.max_offset
        segment_bytes = self.store.config.mapped_file_size_commit_log
        messages = []
        while at < end:
            message = self.store.look_message_by_offset(at)
            if message is None:
                at += segment_bytes - at % segment_bytes
            else:
                messages.append(_described(message))
                at += message.store_size
        self.store.get_max_offset_in_queue("", 0)
        queues = [
            [
                topic,
                queue_id,
                self.store.get_min_offset_in_queue(topic, queue_id),
                self.store.get_max_offset_in_queue(topic, queue_id),
            ]
            for topic, queue_id in self.store.consume_queues.queues()
        ]
        return {"messages": messages, "end": end, "queues": queues}

    def messages(self, physical_offsets: list[int]) -> list[Json | None]:
        found = map(self.store.look_message_by_offset, physical_offsets)
        return [None if message is None else _described(message) for message in found]

    def get(self, requests: list[list[Any]]) -> list[Json]:
        # As RocketMQ's store is asked: below where a broker, or our store, asks for permission.
        self.store._catch_up()
        results = [self.store._reader.get_message(*request) for _, *request in requests]
        return [
            {
                "status": result.status.name,
                "next_begin_offset": result.next_begin_offset,
                "min_offset": result.min_offset,
                "max_offset": result.max_offset,
                "physical_offsets": [message.physical_offset for message in result.messages],
            }
            for result in results
        ]

    def by_time(self, requests: list[list[Any]]) -> list[int]:
        return [self.store.get_offset_in_queue_by_time(*request) for request in requests]

    def query(self, requests: list[list[Any]]) -> list[list[int]]:
        return [
            [
                message.physical_offset
                for message in self.store.query_message(
                    topic, key, begin_ms=begin, end_ms=end, max_num=max_num
                )
            ]
            for topic, key, max_num, begin, end in requests
        ]

    def send_back(
        self, group: str, physical_offset: int, delay_level: int, max_reconsume_times: int | None
    ) -> int:
        try:
            result = self.store.consumer_send_msg_back(
                group, physical_offset, delay_level, max_reconsume_times=max_reconsume_times
            )
        except StoreError as error:
            sys.stderr.write(f"send_back refused: {error}\n")
            return int(error.response_code)
        return int(result.response_code)

    def deliver(self, delivered: int) -> dict[str, int]:
        while sum(self._delay_offsets().values()) < delivered:
            self.store.deliver_due()
        return self._delay_offsets()

    def _delay_offsets(self) -> dict[str, int]:
        return {str(level.level): level.next_offset for level in self.store.delivery.status()}

    def create_topic(self, config: Json) -> None:
        record = TopicConfig.decode(config)
        self.store.topics.replace(record.topic_name, record)

    def create_group(self, config: Json) -> None:
        record = SubscriptionGroupConfig.decode(config)
        self.store.subscription_groups.replace(record.group_name, record)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self.store.consumer_offsets.commit(group, topic, queue_id, offset)

    def persist(self) -> None:
        self.store.flush()

    def state(self) -> Json:
        offsets: dict[str, dict[str, int]] = {}
        for row in self.store.consumer_offsets:
            offsets.setdefault(f"{row.topic}@{row.group}", {})[str(row.queue_id)] = row.offset
        groups = self.store.subscription_groups
        return {
            "topics": {topic.topic_name: topic.encode() for topic in self.store.topics},
            "subscriptionGroup": {group.group_name: group.encode() for group in groups},
            "consumerOffset": offsets,
            "delayOffset": {level: offset for level, offset in self._delay_offsets().items() if offset},
        }


def _message(fields: Json) -> Message:
    return Message(
        fields["topic"],
        base64.b64decode(fields["body"]),
        queue_id=fields["queue_id"],
        properties=fields["properties"],
        flag=fields["flag"],
        sys_flag=fields["sys_flag"],
        born_timestamp=fields["born_timestamp"],
        born_host=_decode_host(fields["born_host"]),
        reconsume_times=fields["reconsume_times"],
        prepared_transaction_offset=fields["prepared_transaction_offset"],
    )


def _described(message: StoredMessage) -> Json:
    body = message.stored_body
    return {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "physical_offset": message.physical_offset,
        "store_size": message.store_size,
        "body_crc": message.body_crc,
        "flag": message.flag,
        "sys_flag": message.stored_sys_flag,
        "born_timestamp": message.born_timestamp,
        "born_host": encode_host(message.born_host),
        "store_timestamp": message.store_timestamp,
        "store_host": encode_host(message.store_host),
        "reconsume_times": message.reconsume_times,
        "prepared_transaction_offset": message.prepared_transaction_offset,
        "properties": message.properties,
        "tags": message.tags,
        "msg_id": message.msg_id,
        "body_bytes": len(body),
        "body_sha1": hashlib.sha1(body).hexdigest(),
    }


def encode_host(host: Host) -> str:
    """A host as hexadecimal address bytes, a colon, and a port: the same text on both sides."""
    return f"{host.address.hex()}:{host.port}"


def _decode_host(text: str) -> Host:
    address, _, port = text.partition(":")
    return Host(bytes.fromhex(address), int(port))


def main() -> None:
    """Answer requests until there are no more."""
    operations = Operations()
    for line in sys.stdin:
        request = json.loads(line)
        operation: Callable[..., Any] = getattr(operations, request.pop("op"))
        try:
            answer = {"answer": operation(**request)}
        except Exception as error:  # noqa: BLE001 - the test that asked is told, whatever it was
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
