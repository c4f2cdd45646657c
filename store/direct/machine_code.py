"""The machine code of the direct put that was built with the package, if it is there and fits.

A wheel has an extension module (build.py). When it is taken: store/loops/extension_module.py.
MQSTORE_DIRECT_PUT=0 has all puts go the interpreted way.
"""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol

from mqstore.store.loops.extension_module import find_extension
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult, SentPuts

__all__ = ["MACHINE_CODE", "DirectPut", "MachineCode", "Watched", "find"]

_MODULE: Final = "put_machine_code"


class DirectPut(Protocol):
    """The class of direct_put.py."""

    def put(self, message: Message) -> PutMessageResult:
        """Store one message of a producer, in one way or the other."""
        ...

    def append(self, message: Message) -> PutMessageResult | None:
        """Append one message of a producer; None, and nothing is changed, if it is not ordinary."""
        ...

    def append_own(self, message: Message) -> PutMessageResult | None:
        """As `append`, one of the store's own, after the delay rewrite."""
        ...

    def append_all(self, messages: list[Message]) -> list[PutMessageResult] | None:
        """Append messages of producers, all or none: None, and nothing is changed, if one is not ordinary."""
        ...

    def sent_puts(self) -> SentPuts:
        """Puts for the producers of a broker, until it is closed."""
        ...


class Watched(Protocol):
    """What may want to hear of puts."""

    wanted: bool


class MachineCode:
    """The compiled direct put. direct_put: makes the one of a store; its arguments: direct_put.py."""

    def __init__(self, module: ModuleType, compiler: str) -> None:
        self.compiler = compiler
        self.checksum: Callable[..., int] = module.checksum
        self.direct_put: Callable[..., Any] = module.DirectPut

    def __repr__(self) -> str:
        return f"MachineCode({self.compiler!r})"


def find(folder: Path, package: Path) -> MachineCode | None:
    """The direct put in `folder` of the sources in `package`; None if there is none that fits."""
    found = find_extension(
        folder, package, f"{__package__}.{_MODULE}", switch="MQSTORE_DIRECT_PUT", what="puts"
    )
    return None if found is None else MachineCode(*found)


MACHINE_CODE: Final = find(Path(__file__).parent, Path(__file__).parents[2])
"""The compiled put of this process; None if all puts are interpreted."""
