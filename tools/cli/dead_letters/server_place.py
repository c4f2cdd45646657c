"""The broker that `--server` names, and how a command gets in: access keys and TLS.

    mqstore dlq list --server 192.0.2.7:9876 --access-keys keys.toml --tls-ca ca.pem billing

What the options say is what a RemoteBroker takes. Secrets are in files: a command line can be read by others.
"""

import ssl
from pathlib import Path
from typing import Final, NamedTuple

import click

from mqstore.client.remote.remote_broker import RemoteBroker
from mqstore.remoting.signature import Credentials
from mqstore.store.config import read_toml
from mqstore.store.errors import ConfigIllegal
from mqstore.tools.cli.exit_codes import ExitCode, ToolProblem
from mqstore.tools.cli.options import together
from mqstore.tools.cli.parameter_types import SHELL_PATH

__all__ = ["ServerPlace", "server_options"]

# Whoever typed a command waits for a slow server rather than type it again.
_TIMEOUT_MS: Final = 20_000

server_options = together(
    click.option(
        "--server",
        metavar="HOST:PORT",
        help="In place of STORE: a running `mqstore serve`, or a name server of RocketMQ.",
    ),
    click.option(
        "--access-keys",
        type=SHELL_PATH,
        metavar="FILE",
        help='Sign requests to the server with the first key of this file, a line `name = "secret"`.',
    ),
    click.option("--tls", is_flag=True, help="Speak TLS with the server, and trust the CAs of this machine."),
    click.option(
        "--tls-ca", type=SHELL_PATH, metavar="FILE", help="Speak TLS, and trust only this CA (PEM)."
    ),
    click.option(
        "--tls-cert",
        type=SHELL_PATH,
        metavar="FILE",
        help="Speak TLS, and show this certificate; its key is in the same file (PEM).",
    ),
)


class ServerPlace(NamedTuple):
    """What the options say; without an address there is no server.

    access_keys: a file. tls: whether to speak it in any case. tls_ca, tls_cert: files, None for none.
    """

    address: str | None
    access_keys: Path | None = None
    tls: bool = False
    tls_ca: Path | None = None
    tls_cert: Path | None = None

    def check(self) -> None:
        """Raises BadParameter for options that no server is there for."""
        if self.address is None and any(self[1:]):
            raise click.BadParameter("--access-keys, --tls, --tls-ca and --tls-cert go with --server")

    def open(self) -> RemoteBroker:
        """The broker. Raises ToolProblem for files that are not what they should be, and as RemoteBroker."""
        assert self.address is not None
        try:
            credentials, tls = self._credentials(), self._tls()
        except OSError as error:
            raise ToolProblem(f"{error.filename or 'a file'}: {error.strerror}", ExitCode.USAGE) from error
        except ConfigIllegal as error:
            raise ToolProblem(str(error), ExitCode.USAGE) from error
        return RemoteBroker(self.address, credentials=credentials, tls=tls, mq_client_api_timeout=_TIMEOUT_MS)

    def _credentials(self) -> Credentials | None:
        if self.access_keys is None:
            return None
        from mqstore.server.security.access_control import checked_keys

        keys = checked_keys(read_toml(self.access_keys), str(self.access_keys))
        return Credentials(*next(iter(keys.items())))

    def _tls(self) -> ssl.SSLContext | None:
        if not (self.tls or self.tls_ca or self.tls_cert):
            return None
        try:
            context = ssl.create_default_context(cafile=self.tls_ca)
            if self.tls_cert is not None:
                context.load_cert_chain(self.tls_cert)
        except OSError as error:
            files = ", ".join(str(path) for path in (self.tls_ca, self.tls_cert) if path is not None)
            if not isinstance(error, ssl.SSLError):
                # It does not say which of them.
                raise OSError(error.errno, error.strerror, files) from error
            raise ConfigIllegal(f"{files}: give PEM files: {error.reason or error}") from error
        return context
