"""An error of a pull that is kept: its traceback holds lent views, which the garbage collector takes apart.

CPython dies where it finds, in one cycle, a view and an iterator over it that cannot be taken apart: the view
goes first, and the iterator then gives back what is gone. So each scene runs in an interpreter of its own,
keeps the error in a variable, and thereby in a cycle, and has the garbage collected.
"""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

OPEN = """
import gc, sys
from pathlib import Path
from mqstore import Message, MessageStore
from mqstore.store.errors import CorruptRecord
from mqstore.index.pull import message_reader
from support.disks.interrupts import interrupt_at

def pull(store, count):
    try:
        store.get_message("group", "orders", 0, 0, count)
    except (CorruptRecord, KeyboardInterrupt) as error:
        kept = error
        return True
    return False

path = Path(sys.argv[1])
store = MessageStore.open(path, start=False)
for number in range(10):
    store.put_message(Message("orders", b"%d" % number))
store.get_message("group", "orders", 0, 0)
"""

DAMAGED = """
with (path / "consumequeue/orders/0" / ("0" * 20)).open("r+b") as file:
    file.seek(5 * 20)
    file.write((7).to_bytes(8, "big"))
for count in (1, 3, 8, 32):
    assert pull(store, count) == (count > 5), count
    gc.collect()
"""

INTERRUPTED = """
for count in (1, 3, 8):
    place, was_interrupted = 0, True
    while was_interrupted:
        place += 1
        with interrupt_at(place, (message_reader,)):
            was_interrupted = pull(store, count)
        gc.collect()
    assert place > 5
"""


@pytest.mark.slow
@pytest.mark.parametrize("scene", [DAMAGED, INTERRUPTED], ids=["damaged", "interrupted"])
def test_the_interpreter_outlives_an_error_that_is_kept(scene: str, tmp_path: Path) -> None:
    """A damaged entry of a queue, and Ctrl-C at each place of a pull from a sound one."""
    program = OPEN + scene + "store.close()\nprint('alive')"
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", program, str(tmp_path / "data")],
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "alive\n", "")
