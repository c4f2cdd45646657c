"""Name servers: where the brokers are, and where the queues of a topic.

Each knows the same. They are asked in turn, beginning with the one that has answered last, until one does.
Threads: any. Source: docs/spec/remoting.md section 4; NettyRemotingClient of Apache RocketMQ.
"""

import functools
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from mqstore.client.errors import BrokerNotConnected, BrokerRefused, BrokerTimedOut, NoBroker
from mqstore.client.remote.channel import NO_FIELDS, Channel
from mqstore.client.remote.stream import Security
from mqstore.remoting.bodies import ClusterInfo, RouteData, TopicList
from mqstore.remoting.command import Command
from mqstore.remoting.errors import BodyIllegal
from mqstore.remoting.fastjson import decode
from mqstore.remoting.request_codes import RequestCode
from mqstore.store.status import ResponseCode

__all__ = ["NameServers"]

_DEFAULT_PORT: Final = 9876

BodyT = TypeVar("BodyT", bound=msgspec.Struct)


class NameServers:
    """The name servers that a client was given."""

    def __init__(self, addresses: str, security: Security, timeout_ms: int) -> None:
        """addresses: `host:port;host:port`; without a port it is 9876. timeout_ms: for each of them.

        Raises NoBroker.
        """
        self.addresses = [
            _with_port(part.strip()) for part in addresses.replace(",", ";").split(";") if part.strip()
        ]
        if not self.addresses:
            raise NoBroker(f"a client of the name servers {addresses!r}")
        self._channels = [
            Channel(f"name server {address}", functools.partial(_same, address), security)
            for address in self.addresses
        ]
        self._timeout_ms = timeout_ms
        # The one that has answered last.
        self._first = 0

    def route(self, topic: str, timeout_ms: int | None = None) -> RouteData | None:
        """The brokers and queues of a topic; None if there is no such topic. Raises as `brokers`.

        timeout_ms: for each name server; None for what the constructor was told.
        """
        answer = self._ask(
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            {"topic": topic, "acceptStandardJsonOnly": "true"},
            timeout_ms,
        )
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        return _body_of(answer, RouteData, self.addresses[self._first])

    def brokers(self) -> ClusterInfo:
        """All brokers. Raises BrokerNotConnected, BrokerTimedOut, BrokerRefused, BodyIllegal."""
        answer = self._ask(RequestCode.GET_BROKER_CLUSTER_INFO, NO_FIELDS)
        return _body_of(answer, ClusterInfo, self.addresses[self._first])

    def topics(self) -> list[str]:
        """The names of all topics. Raises as `brokers`."""
        answer = self._ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, NO_FIELDS)
        return sorted(_body_of(answer, TopicList, self.addresses[self._first]).topic_list)

    def forget(self, topic: str) -> None:
        """Have every name server forget a topic that its brokers have deleted. Raises as `brokers`."""
        for address, channel in zip(self.addresses, self._channels, strict=True):
            answer = channel.ask(
                RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic}, timeout_ms=self._timeout_ms
            )
            if answer.code != ResponseCode.SUCCESS:
                raise BrokerRefused(f"name server {address}", answer.code, answer.remark)

    def _ask(self, code: int, fields: Mapping[str, str], timeout_ms: int | None = None) -> Command:
        first, count = self._first, len(self._channels)
        timeout_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        for at in range(count):
            number = (first + at) % count
            try:
                answer = self._channels[number].ask(code, fields, timeout_ms=timeout_ms)
            except (BrokerNotConnected, BrokerTimedOut):
                if at == count - 1:
                    raise
            else:
                self._first = number
                return answer
        raise AssertionError("there is a name server")

    def expire(self) -> None:
        """Close connections that nobody uses."""
        for channel in self._channels:
            channel.expire()

    def close(self) -> None:
        """End the connections."""
        for channel in self._channels:
            channel.close()

    def __repr__(self) -> str:
        return f"NameServers({';'.join(self.addresses)!r})"


def _body_of(answer: Command, form: type[BodyT], address: str) -> BodyT:
    if answer.code != ResponseCode.SUCCESS:
        raise BrokerRefused(f"name server {address}", answer.code, answer.remark)
    try:
        return msgspec.convert(decode(answer.body), form, strict=False)
    except msgspec.ValidationError as error:
        raise BodyIllegal(form.__name__, str(error)) from error


def _same(address: str, _is_anew: bool, /) -> str:
    return address


def _with_port(address: str) -> str:
    _, separator, port = address.rpartition(":")
    return address if separator and port.isdigit() else f"{address}:{_DEFAULT_PORT}"
