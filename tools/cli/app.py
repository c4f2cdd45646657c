"""The command `mqstore`: its entry point.

    mqstore COMMAND ...          exit codes: 0 ok, 1 problem found, 2 usage, 3 locked, 4 corruption

The commands are registered in command_table.py. Click is imported only inside `main`, and Rich when it is
needed, so that an installation without them is told what to install instead of getting a traceback.

Until the command begins Ctrl-C ends the process at once. Python's own handler raises KeyboardInterrupt, which
C code that is being imported may swallow, or leave a package half imported.

What a start imports and makes stays until the end: to look for garbage in it takes an eighth of the time
until `mqstore serve` is ready. So the collector is off until the command begins.

numpy's OpenBLAS starts a thread for each processor, and each spins for a tenth of a second before it sleeps.
No command multiplies matrices, so it gets one thread, unless the environment says otherwise.
"""

import gc
import os
import signal
import sys
from pathlib import Path

__all__ = ["main"]

_PACKAGES = frozenset({"click", "rich"})


def main() -> None:
    """Run the command line of this process and exit."""
    gc.disable()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _open_closed_streams()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from mqstore.tools.cli.command_table import app

        app()
    except ModuleNotFoundError as error:
        if error.name not in _PACKAGES:
            raise
        sys.exit(f"mqstore: the command line needs {error.name}: pip install click rich")
    except OSError as error:
        # Errors of parsing and of commands are told by the table; this is what Click could not write itself.
        sys.exit(f"mqstore: {error}")


def _open_closed_streams() -> None:
    """Streams that were closed, as by `>&-`: Python has None for them, and nothing writes to that."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - for good
