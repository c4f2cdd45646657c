"""Routes: what a name server tells clients, of the one broker that this process is.

The address of the broker is the name server's own, so a client needs one connection.

Difference from RocketMQ: the route of the retry topic of any group is answered at once, as if the topic were
there already. A consumer asks for it before its first heartbeat creates it, and would ask again only 30 s
later: the first retries of a new group would come late.

Threads: the loop's. Source: docs/spec/remoting.md section 4; RouteInfoManager of Apache RocketMQ.
"""

from mqstore.metadata.topics import MAX_QUEUE_NUMS, TopicConfig
from mqstore.remoting.bodies import (
    BrokerData,
    ClusterInfo,
    QueueData,
    RouteData,
    TopicList,
    encode_body,
)
from mqstore.remoting.headers import TopicHeader
from mqstore.remoting.request_codes import RequestCode
from mqstore.server.answer import DONE, Answer
from mqstore.server.parts import ServerParts, Table, in_loop
from mqstore.server.request import Request
from mqstore.store.message.topic_names import is_retry_topic, is_system_topic
from mqstore.store.status import ResponseCode

__all__ = ["RouteProcessor"]

_NOT_FOUND = "No topic route info in name server for the topic: {}"


class RouteProcessor:
    """Answers as a name server."""

    def __init__(self, parts: ServerParts) -> None:
        settings = parts.settings
        self._topics = parts.store.topics
        self._broker_name = settings.broker_name
        self._cluster_name = settings.cluster_name
        self._address = settings.address
        self._broker = BrokerData({"0": settings.address}, settings.broker_name, settings.cluster_name)

    def table(self) -> Table:
        """The codes that it answers."""
        return {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: in_loop(self.route),
            RequestCode.GET_BROKER_CLUSTER_INFO: in_loop(self.cluster),
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: in_loop(self.topics),
            RequestCode.GET_TOPICS_BY_CLUSTER: in_loop(self.topics),
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: in_loop(self.system_topics),
            RequestCode.DELETE_TOPIC_IN_NAMESRV: in_loop(self.deleted),
            RequestCode.GET_KV_CONFIG: in_loop(self.no_setting),
            RequestCode.DELETE_KV_CONFIG: in_loop(self.deleted),
        }

    def route(self, request: Request) -> Answer:
        """105: where the queues of a topic are."""
        topic = request.fields_as(TopicHeader).topic
        config = self._topics.get(topic)
        if config is None and is_retry_topic(topic):
            config = TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1)
        if config is None:
            return Answer(ResponseCode.TOPIC_NOT_EXIST, _NOT_FOUND.format(topic))
        read_nums, write_nums = (
            min(count, MAX_QUEUE_NUMS) for count in (config.read_queue_nums, config.write_queue_nums)
        )
        queues = QueueData(self._broker_name, config.perm, read_nums, config.topic_sys_flag, write_nums)
        order = f"{self._broker_name}:{write_nums}" if config.order else None
        return Answer(body=encode_body(RouteData([self._broker], {}, [queues], order)))

    def cluster(self, request: Request) -> Answer:
        """106: the brokers, of which there is one."""
        name = self._broker_name
        return Answer(body=encode_body(ClusterInfo({name: self._broker}, {self._cluster_name: [name]})))

    def topics(self, request: Request) -> Answer:
        """206, 224: the names of all topics."""
        return Answer(body=encode_body(TopicList(sorted(config.topic_name for config in self._topics))))

    def system_topics(self, request: Request) -> Answer:
        """304: the broker's own topics, with the names of cluster and broker, as a name server does."""
        own = [config.topic_name for config in self._topics if is_system_topic(config.topic_name)]
        names = [self._cluster_name, self._broker_name, *sorted(own)]
        return Answer(body=encode_body(TopicList(names, self._address)))

    def deleted(self, request: Request) -> Answer:
        """216, 102: the broker has deleted the topic, and here is no second table of it."""
        return DONE

    def no_setting(self, request: Request) -> Answer:
        """101: there are no settings by name and value; order is a topic's own."""
        return Answer(ResponseCode.QUERY_NOT_FOUND, "No config item")
