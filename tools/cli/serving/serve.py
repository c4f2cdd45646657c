"""`mqstore serve`: a store as a RocketMQ name server and broker, until Ctrl-C or SIGTERM.

    $ mqstore serve data
    name server and broker on 127.0.0.1:9876, store data (3 topics, 402,786 messages). Ctrl-C stops.

It takes the store's lock, so no other writer is at work beside it; commands that only read are. A stop waits
for what is under way, for a bounded time, and makes everything durable; a second signal ends at once.
"""

import asyncio
import ipaddress
import signal
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mqstore.message_store import MessageStore
from mqstore.store.config import read_toml
from mqstore.store.errors import ConfigIllegal
from mqstore.store.message.topic_names import is_system_topic
from mqstore.store.record.host import Host
from mqstore.tools.cli.command import Command
from mqstore.tools.cli.exit_codes import ExitCode, ToolProblem
from mqstore.tools.cli.open_store import open_for_writing
from mqstore.tools.cli.options import config_option, json_option, setting_option, store_argument
from mqstore.tools.cli.output import Output, Row
from mqstore.tools.cli.parameter_types import SHELL_PATH
from mqstore.tools.cli.serving.large_blocks import give_back_large_blocks

if TYPE_CHECKING:
    import ssl

    from mqstore.server.broker_server import BrokerServer
    from mqstore.server.settings import ServerSettings

__all__ = ["serve"]

_PORT = 9876
_LOOPBACK = "127.0.0.1"


class ServingRow(Row):
    """Where a server is, once it serves."""

    address: str
    metrics: str | None
    store: str
    topics: int
    messages: int


@click.command(cls=Command)
@store_argument
@click.option(
    "--listen", default=_LOOPBACK, metavar="ADDRESS", help="IP address to listen on; others see the port."
)
@click.option(
    "--port",
    type=click.IntRange(min=0, max=65_535),
    default=_PORT,
    help="Port to listen on; 0 takes a free one.",
)
@click.option("--advertise", metavar="IP:PORT", help="Where clients reach it, if not where it listens.")
@click.option(
    "--access-keys",
    type=SHELL_PATH,
    metavar="FILE",
    help="Serve only requests that are signed with a key of this file.",
)
@click.option("--tls-cert", type=SHELL_PATH, metavar="FILE", help="Speak TLS, with this certificate (PEM).")
@click.option("--tls-key", type=SHELL_PATH, metavar="FILE", help="Its key, if it is not in the same file.")
@click.option(
    "--tls-client-ca",
    type=SHELL_PATH,
    metavar="FILE",
    help="Let in only clients with a certificate of this CA.",
)
@click.option("--insecure", is_flag=True, help="Listen beyond the loopback without any access control.")
@click.option(
    "--metrics-port",
    type=click.IntRange(min=0, max=65_535),
    help="Serve /metrics and /health on this port of the loopback.",
)
@click.option("--broker-name", default="broker-a", help="Name of the broker.")
@click.option("--cluster-name", default="DefaultCluster", help="Name of its cluster.")
@config_option
@setting_option
@json_option
def serve(
    store: Path,
    listen: str,
    port: int,
    advertise: str | None,
    access_keys: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_client_ca: Path | None,
    insecure: bool,
    metrics_port: int | None,
    broker_name: str,
    cluster_name: str,
    config: Path | None,
    setting: tuple[str, ...],
    json: bool,
) -> None:
    """Serve a store to RocketMQ's clients, as name server and broker on one port.

    Example: mqstore serve data
    """
    from mqstore.server.serving import address_of, bind
    from mqstore.server.settings import ServerSettings

    give_back_large_blocks()
    output = Output(is_json=json)
    is_guarded = access_keys is not None or tls_client_ca is not None
    _check_listen(listen, advertise, is_open=insecure or is_guarded)
    keys, tls = _security(access_keys, tls_cert, tls_key, tls_client_ca)
    try:
        bound = bind(listen, port)
    except OSError as error:
        reason = f"{listen}:{port} cannot be listened on ({error.strerror})"
        raise ToolProblem(f"{reason}: name another with --listen and --port, or --port 0") from error
    with bound:
        address = advertise or address_of(bound)
        settings = ServerSettings(
            address=address,
            broker_name=broker_name,
            cluster_name=cluster_name,
            access_keys=keys,
            tls=tls,
        )
        given = [*setting, f"store_host={address}"]
        with open_for_writing(store, config, given, output=output, deletes_expired=True) as opened:
            serving = _Serving(output, store, opened, settings, metrics_port)
            is_drained = asyncio.run(serving.run(bound))
    if not is_drained:
        raise ToolProblem("what was under way had not ended in time: its clients were not answered")


def _security(
    access_keys: Path | None, certificate: Path | None, key: Path | None, client_ca: Path | None
) -> tuple[Mapping[str, str], "ssl.SSLContext | None"]:
    """The keys and the TLS of the options. Raises ToolProblem."""
    from mqstore.server.security.access_control import checked_keys
    from mqstore.server.security.tls import server_tls

    if certificate is None and (key is not None or client_ca is not None):
        raise ToolProblem("--tls-key and --tls-client-ca need --tls-cert FILE", ExitCode.USAGE)
    try:
        keys = checked_keys(read_toml(access_keys), str(access_keys)) if access_keys is not None else {}
        return keys, server_tls(certificate, key, client_ca) if certificate is not None else None
    except OSError as error:
        raise ToolProblem(f"{error.filename or 'a file'}: {error.strerror}", ExitCode.USAGE) from error
    except ConfigIllegal as error:
        raise ToolProblem(str(error), ExitCode.USAGE) from error


def _check_listen(listen: str, advertise: str | None, *, is_open: bool) -> None:
    """Raises ToolProblem for an address that is none, or that nobody has said to be safe."""
    try:
        address = ipaddress.ip_address(listen)
    except ValueError:
        raise ToolProblem(f"--listen {listen}: give an IP address", ExitCode.USAGE) from None
    if not address.is_loopback and not is_open:
        reason = (
            f"--listen {listen} lets every host that reaches it read and write: add --access-keys FILE, or "
            "--tls-cert with --tls-client-ca, or --insecure if the network itself keeps others out"
        )
        raise ToolProblem(reason, ExitCode.USAGE)
    if address.is_unspecified and advertise is None:
        reason = f"--listen {listen} is no address that clients can connect to: add --advertise IP:PORT"
        raise ToolProblem(reason, ExitCode.USAGE)
    if advertise is not None:
        try:
            Host.parse(advertise)
        except ValueError:
            raise ToolProblem(f"--advertise {advertise}: give IP:PORT", ExitCode.USAGE) from None


class _Serving:
    """One run of the command, until a signal comes."""

    def __init__(
        self,
        output: Output,
        path: Path,
        opened: MessageStore,
        settings: "ServerSettings",
        metrics_port: int | None,
    ) -> None:
        self._output = output
        self._path = path
        self._opened = opened
        self._settings = settings
        self._metrics_port = metrics_port

    async def run(self, bound: socket.socket) -> bool:
        """Serve; whether all that was under way has ended in time."""
        from mqstore.server import serving

        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        signals = (signal.SIGINT, signal.SIGTERM)

        def ask() -> None:
            stop.set()
            # A second signal ends the process at once.
            for number in signals:
                loop.remove_signal_handler(number)

        for number in signals:
            loop.add_signal_handler(number, ask)
        with ExitStack() as stack:
            return await serving.serve(
                self._opened, bound, self._settings, stop, on_ready=lambda server: self._begin(server, stack)
            )

    def _begin(self, server: "BrokerServer", stack: ExitStack) -> None:
        metrics = None
        if self._metrics_port is not None:
            from mqstore.server.monitoring.monitoring_server import monitoring

            try:
                metrics = stack.enter_context(
                    monitoring(self._opened, lambda: server.figures, self._metrics_port)
                )
            except OSError as error:
                reason = f"metrics cannot be served on port {self._metrics_port} ({error.strerror})"
                raise ToolProblem(f"{reason}: name another with --metrics-port, or 0") from error
        topics = sum(not is_system_topic(config.topic_name) for config in self._opened.topics)
        messages = self._opened.stats().messages
        self._tell(metrics, topics, messages)

    def _tell(self, metrics: str | None, topics: int, messages: int) -> None:
        address, path = self._settings.address, self._path
        if self._output.is_json:
            row = ServingRow(
                address=address, metrics=metrics, store=str(path), topics=topics, messages=messages
            )
            self._output.facts(row)
            return
        counts = f"{topics:,} topic{'s' * (topics != 1)}, {messages:,} message{'s' * (messages != 1)}"
        self._output.note(f"name server and broker on {address}, store {path} ({counts}). Ctrl-C stops.")
        if metrics is not None:
            self._output.note(f"metrics on http://{metrics}/metrics, health on http://{metrics}/health")
