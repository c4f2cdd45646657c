"""A name server and broker for RocketMQ's clients: asyncio over an EmbeddedBroker; for `mqstore serve`.

with running("data") as server:
    server.address                  where clients find it, on a free port
"""

from mqstore.server.serving import running
from mqstore.server.settings import ServerSettings

__all__ = ["ServerSettings", "running"]
