"""The plain send of this process: the compiled one, if it was built with the package and fits.

The compiled module is plain_send.py itself (store/direct/build.py), under another name.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from mqstore.client.producer.sends import plain_send
from mqstore.client.producer.sends.plain_send import OtherwiseSend, Send
from mqstore.client.producer.sends.send_parts import SendParts
from mqstore.client.producer.sends.send_retry import SendRetry
from mqstore.store.direct.machine_code import find_module

__all__ = ["PLAIN_SEND"]

_FOLDER: Final = Path(__file__).parent
_MODULE: Final = find_module(_FOLDER, _FOLDER.parents[2], f"{__package__}.send_machine_code")

PLAIN_SEND: Final[Callable[[SendParts, SendRetry, OtherwiseSend], tuple[Send, Callable[[bool], None]]]] = (
    _MODULE[0] if _MODULE else plain_send
).plain_send
"""Makes the `send` of a producer: see plain_send.py."""
