"""Topics as mqadmin asks for them: create (17), delete (215), list (21, 351), where each queue stands (202).

Threads: a worker's, for most of it writes a state file or reads many queues.
Source: docs/spec/remoting.md section 13; AdminBrokerProcessor of Apache RocketMQ.
"""

from mqstore.metadata.topics import TopicConfig
from mqstore.remoting import fastjson
from mqstore.remoting.bodies import QueueName, TopicList, encode_body
from mqstore.remoting.headers import TopicHeader, TopicSettingsHeader
from mqstore.remoting.request_codes import RequestCode
from mqstore.server.answer import DONE, Answer
from mqstore.server.parts import ServerParts, Table, in_loop, in_worker
from mqstore.server.request import Request
from mqstore.store.errors import TopicNotExist
from mqstore.store.message.topic_names import is_system_topic

__all__ = ["TopicAdmin", "attributes_of"]


class TopicAdmin:
    """Administers topics."""

    def __init__(self, parts: ServerParts) -> None:
        self._store = parts.store
        self._broker_name = parts.settings.broker_name
        self._address = parts.settings.address

    def table(self) -> Table:
        """The codes that it answers."""
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: in_worker(self.create),
            RequestCode.DELETE_TOPIC_IN_BROKER: in_worker(self.delete),
            RequestCode.GET_ALL_TOPIC_CONFIG: in_worker(self.all_settings),
            RequestCode.GET_TOPIC_CONFIG: in_loop(self.settings),
            RequestCode.GET_TOPIC_STATS_INFO: in_worker(self.stats),
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: in_loop(self.system_topics),
        }

    def create(self, request: Request) -> Answer:
        """17."""
        fields = request.fields_as(TopicSettingsHeader)
        self._store.topics.create(
            fields.topic,
            read_queue_nums=fields.read_queue_nums,
            write_queue_nums=fields.write_queue_nums,
            perm=fields.perm,
            order=fields.order,
            attributes=attributes_of(fields.attributes),
        )
        return DONE

    def delete(self, request: Request) -> Answer:
        """215."""
        self._store.delete_topic(request.fields_as(TopicHeader).topic)
        return DONE

    def all_settings(self, request: Request) -> Answer:
        """21."""
        version = self._store.topics.data_version
        table = {config.topic_name: config.encode() for config in self._store.topics}
        return Answer(body=fastjson.encode({"dataVersion": version.encode(), "topicConfigTable": table}))

    def settings(self, request: Request) -> Answer:
        """351."""
        return Answer(body=fastjson.encode(self._found(request).encode()))

    def stats(self, request: Request) -> Answer:
        """202."""
        config = self._found(request)
        topic, table = config.topic_name, {}
        for queue_id in range(config.queue_nums):
            max_offset = self._store.get_max_offset_in_queue(topic, queue_id)
            last_time = self._store.get_message_store_timestamp(topic, queue_id, max_offset - 1)
            table[QueueName(self._broker_name, queue_id, topic)] = {
                "lastUpdateTimestamp": max(0, last_time),
                "maxOffset": max_offset,
                "minOffset": self._store.get_min_offset_in_queue(topic, queue_id),
            }
        return Answer(body=fastjson.encode({"offsetTable": table, "topicPutTps": 0.0}))

    def system_topics(self, request: Request) -> Answer:
        """305."""
        own = [config.topic_name for config in self._store.topics if is_system_topic(config.topic_name)]
        return Answer(body=encode_body(TopicList(sorted(own), self._address)))

    def _found(self, request: Request) -> TopicConfig:
        topic = request.fields_as(TopicHeader).topic
        config = self._store.topics.get(topic)
        if config is None:
            raise TopicNotExist(topic)
        return config


def attributes_of(text: str | None) -> dict[str, str]:
    """The changes of attributes that a request asks for.

    >>> attributes_of("+message.type=DELAY,-cleanup.policy")
    {'+message.type': 'DELAY', '-cleanup.policy': ''}
    """
    pairs = (change.partition("=") for change in (text or "").split(",") if change.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}
