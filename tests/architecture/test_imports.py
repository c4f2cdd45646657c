"""The layers: store <- index <- schedule <- mqstore <- broker <- remoting <- client <- observability
<- server <- tools.

Goal: what lies below never learns of what lies above, so each folder can be read with only the ones before
it in mind. Method: every import of every source, those inside functions too, is resolved to a layer.
"""

import pytest

from support.sources import LAYERS, Source, package_sources

DIRECTION = " <- ".join(LAYERS)


def layer_of(module: str) -> str | None:
    """The layer of an imported name; None when it is not ours. `mqstore.Message` is of the front door."""
    head, _, rest = module.partition(".")
    if head != "mqstore":
        return None
    folder = rest.partition(".")[0]
    return folder if folder in LAYERS else "mqstore"


def offences_in(source: Source) -> list[str]:
    found = []
    for use in source.imports:
        if use.name.startswith("."):
            found.append(f"{source.at(use.line)}  -- write the absolute name (mqstore.<folder>.<module>)")
            continue
        layer = layer_of(use.name)
        if layer is not None and LAYERS.index(layer) > LAYERS.index(source.layer):
            found.append(
                f"{source.at(use.line)}  -- {source.layer}/ must not know {layer}/: imports go {DIRECTION}. "
                "Hand the upper part in (a callable or a Protocol that the lower one declares)"
            )
    return found


APART = {"remoting": {"index", "schedule", "mqstore", "broker"}, "server": {"client"}}
"""Folders below a folder that it must not know: the protocol is bytes alone, and a server is no client."""


def test_what_is_apart_stays_apart() -> None:
    """The protocol knows no broker, and the server does not know the clients of this process."""
    offences = [
        source.at(use.line)
        for source in package_sources()
        for use in source.imports
        if layer_of(use.name) in APART.get(source.layer, ())
    ]
    assert not offences, "\n".join(offences)


def test_a_layer_imports_only_itself_and_those_below() -> None:
    """No source imports a folder that stands to the right of its own."""
    offences = [offence for source in package_sources() for offence in offences_in(source)]
    assert not offences, "\n".join(offences)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("store/x.py", "import mqstore.index.queue.consume_queue"),
        ("store/x.py", "from mqstore.index import consume_queue"),
        ("store/x.py", "from mqstore import index"),
        ("store/x.py", "from mqstore import Message"),
        ("index/x.py", "def f():\n    from mqstore.schedule.delay.delay_levels import DelayLevels"),
        ("schedule/x.py", "import importlib\nimportlib.import_module('mqstore.client.consumer')"),
        ("client/x.py", "from mqstore.tools.cli import app"),
        ("index/x.py", "from .kernels import fill"),
        ("mqstore/x.py", "from ..store import clock"),
    ],
)
def test_the_checker_objects(path: str, text: str) -> None:
    """Each way to import upwards, or relatively, is seen."""
    assert len(offences_in(Source(path, text))) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("store/x.py", "import numpy\nfrom mqstore.store.clock import Clock"),
        ("index/x.py", "from mqstore.store import clock\nfrom mqstore.index import kernels"),
        (
            "mqstore/x.py",
            "from mqstore.schedule.delay import delay_levels\nfrom mqstore.metadata.topics import Topics",
        ),
        ("tools/cli/x.py", "from mqstore import MessageStore\nfrom mqstore.client.consumer import Consumer"),
    ],
)
def test_the_checker_lets_pass(path: str, text: str) -> None:
    """Imports along the direction are no offence."""
    assert not offences_in(Source(path, text))
