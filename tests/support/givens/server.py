"""A server for the clients of the page, in this process."""

import atexit
import contextlib

from mqstore.server import running

servers = contextlib.ExitStack()
servers.enter_context(running("data", port=9876))
atexit.register(servers.close)
