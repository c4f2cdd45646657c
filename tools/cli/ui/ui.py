"""`mqstore ui`: a store as pages of a browser, read-only. Safe on a live store: it takes no lock.

    $ mqstore ui data
    http://127.0.0.1:9880/ shows store data. Ctrl-C stops.

Only this machine reaches it, and whoever has an account on it (docs/ui.md).
"""

import errno
import os
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from mqstore.tools.cli.command import Command
from mqstore.tools.cli.exit_codes import ExitCode, ToolProblem
from mqstore.tools.cli.open_store import open_for_reading
from mqstore.tools.cli.options import json_option, store_argument
from mqstore.tools.cli.output import Output, Row

__all__ = ["ui"]

_PORT = 9880
_BACKLOG = 64
# Until the server handles signals, they end the process without a word.
_SERVER = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "from mqstore.tools.cli.ui.web_server import main; main()"
)
_PACKAGES = ("starlette", "uvicorn", "jinja2")


class UiRow(Row):
    """Where the pages are."""

    url: str
    store: str


@click.command(cls=Command)
@store_argument
@click.option(
    "--port",
    type=click.IntRange(min=0, max=65_535),
    default=_PORT,
    help="Port of 127.0.0.1; 0 takes a free one.",
)
@json_option
def ui(store: Path, port: int, json: bool) -> None:
    """Show a store in the browser: topics, messages, groups, delays, dead letters, growth. Changes nothing.

    Example: mqstore ui data
    """
    output = Output(is_json=json)
    for package in _PACKAGES:
        if find_spec(package) is None:
            raise ToolProblem(f"the pages need {package}: pip install 'mqstore[ui]'", ExitCode.USAGE)
    # A path that is mistyped is told now; one that goes away later is told by a page.
    open_for_reading(store, ["key_index_enable=false"]).close()
    try:
        bound = socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        reason = f"port {port} of 127.0.0.1 cannot be had ({error.strerror})"
        raise ToolProblem(f"{reason}: name another with --port, or --port 0") from error
    with bound:
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/"
        if json:
            output.facts(UiRow(url=url, store=str(store)))
        else:
            output.note(f"{url} shows store {store}. Ctrl-C stops.")
        sys.stdout.flush()
        # In the same process, but anew: what the command line has loaded is a fifth of the memory.
        bound.set_inheritable(True)
        arguments = [sys.executable, "-P", "-c", _SERVER, str(store.absolute()), str(bound.fileno())]
        os.execv(sys.executable, arguments)
