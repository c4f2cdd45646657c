"""A broker of Apache RocketMQ as our clients see it: they ask its name server."""

import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from mqstore.client import Credentials, ProducerSettings, RemoteBroker
from mqstore.store.errors import StoreError
from support.interop.broker import BrokerRun, broker_port, eventually, running_broker

__all__ = ["PATIENT", "Guards", "real_broker"]

# On a machine under load a request may take longer than the three seconds that a client waits by itself.
_PATIENCE_MS = 20_000
PATIENT = ProducerSettings(send_msg_timeout=_PATIENCE_MS)

_DELAYS = "1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s"
_SETTINGS = {
    "messageDelayLevel": _DELAYS,
    "longPollingEnable": "true",
    # A broker that asks before it has noted an end commits a message twice.
    "transactionTimeOut": "2500",
    "transactionCheckInterval": "500",
    # Else 5.x notes what was ended so late that it asks all the same. 4.9 knows nothing of it.
    "transactionOpBatchInterval": "100",
    # The address under which clients reach it stands in the ids of messages.
    "flushDiskType": "ASYNC_FLUSH",
}


class Guards(NamedTuple):
    """How a broker is told whom to let in, and how our clients come in."""

    settings: Mapping[str, str]
    conf: Mapping[str, str]
    java_options: Sequence[str]
    credentials: Credentials
    tls: ssl.SSLContext


@contextmanager
def real_broker(
    version: str, path: Path, name: str, guards: Guards | None = None
) -> Iterator[tuple[BrokerRun, RemoteBroker]]:
    """A broker of RocketMQ, and what our clients take for it."""
    settings = {"listenPort": broker_port(), **_SETTINGS, **(guards.settings if guards else {})}
    java_options = guards.java_options if guards else ()
    conf = guards.conf if guards else None
    credentials, tls = (guards.credentials, guards.tls) if guards else (None, None)
    with running_broker(version, path, settings, name, java_options=java_options, conf=conf) as run:
        found: list[RemoteBroker] = []

        def is_registered() -> bool:
            with suppress(StoreError):
                opened = RemoteBroker(
                    run.name_server, credentials=credentials, tls=tls, mq_client_api_timeout=_PATIENCE_MS
                )
                found.append(opened)
            return bool(found)

        eventually(is_registered, "the broker is registered")
        with found[0] as broker:
            # It tells its topics to the name server when it has begun.
            eventually(lambda: broker.topic_route("TBW102") is not None, "TBW102 has a route")
            yield run, broker
        run.broker.stop()
