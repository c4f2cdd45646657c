"""The plain send of this process: the compiled one, if it was built with the package and fits.

The compiled module is made of direct_send.py (store/direct/build.py).
"""

from collections.abc import Callable
from typing import Final

from mqstore.client.producer.sends import plain_send
from mqstore.client.producer.sends.plain_send import OtherwiseSend, Send
from mqstore.client.producer.sends.send_parts import SendParts
from mqstore.client.producer.sends.send_retry import SendRetry
from mqstore.store.loops.extension_module import module_beside

__all__ = ["PLAIN_SEND"]

_MODULE: Final = module_beside(
    __file__, __package__, "send_machine_code", switch="MQSTORE_DIRECT_PUT", what="sends"
)

PLAIN_SEND: Final[Callable[[SendParts, SendRetry, OtherwiseSend], tuple[Send, Callable[[bool], None]]]] = (
    plain_send if _MODULE is None else _MODULE
).plain_send
"""Makes the `send` of a producer: see plain_send.py."""
