"""What the compiled read is worth: processor time of a read, compiled and interpreted.

usage: compiled_read.py PYTHON [--rounds 100] [--json FILE] [--page FILE]

PYTHON has mqstore from a wheel.

One row is one read of one thread, without services, from a store of 20,000 messages that lie in memory: of
random keys, offsets and times, or of 32 messages of a queue from a random one on. Both contestants live at
the same time, each in a process of its own with a store of its own, and take turns of 500 reads; so what else
the machine does hits both. The thread's processor time counts, not the wall.
"""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import click
from contest import Contestant, quartiles_us, shown, take_turns, version_of
from report import replace_between

READS = 500
PROGRAM = """
import random, sys, time
from mqstore import Message, MessageStore
class Clock:
    ms = 1_700_000_000_000
    def now_ms(self):
        return self.ms
clock = Clock()
store = MessageStore.open(sys.argv[1], clock=clock, start=False)
body, offsets = b"x" * {size}, []
for first in range(0, 20_000, 10):
    ten = range(first, first + 10)
    put = store.put_messages(
        [Message("orders", body, tags="created", keys=f"order-{n}", queue_id=0) for n in ten]
    )
    offsets += [one.physical_offset for one in put]
    clock.ms += 1
store.flush()
draw = random.Random(1)
numbers = [draw.randrange(19_000) for _ in range({reads})]
def run():
    for number in numbers:
        {step}
run()
for _ in sys.stdin:
    start = time.thread_time_ns()
    run()
    print((time.thread_time_ns() - start) / {reads}, flush=True)
"""
CASES = {
    "query_message by key, 1 KiB": (
        1024,
        'for message in store.query_message("orders", f"order-{number}"): message.body_view[0]',
    ),
    "look_message_by_offset, body copied, 1 KiB": (
        1024,
        "store.look_message_by_offset(offsets[number]).body",
    ),
    "get_message of 32, bodies copied, 128 B": (
        128,
        'for message in store.get_message("billing", "orders", 0, number, 32).messages: message.body',
    ),
    "get_message of 32, bodies copied, 1 KiB": (
        1024,
        'for message in store.get_message("billing", "orders", 0, number, 32).messages: message.body',
    ),
    "get_offset_in_queue_by_time, 1 KiB": (
        1024,
        'store.get_offset_in_queue_by_time("orders", 0, 1_700_000_000_000 + number // 10)',
    ),
}


def contest(python: Path, size: int, step: str, rounds: int, folder: Path) -> dict[str, list[float]]:
    """Nanoseconds of a read in each turn of each contestant."""
    program = PROGRAM
    for name, value in {"size": size, "reads": READS, "step": step}.items():
        program = program.replace(f"{{{name}}}", str(value))
    contestants = {
        name: Contestant(python, program, folder / name, switch="MQSTORE_DIRECT_READ", is_direct=is_direct)
        for name, is_direct in (("compiled", True), ("interpreted", False))
    }
    return take_turns(contestants, rounds)


@click.command(context_settings={"show_default": True})
@click.argument("python", type=click.Path(path_type=Path))
@click.option("--rounds", type=int, default=100, help="Turns of each contestant.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the figures here.")
@click.option("--page", type=click.Path(path_type=Path), help="Write the table into this page.")
def main(python: Path, rounds: int, json_path: Path | None, page: Path | None) -> None:
    """Measure, print, and write the figures."""
    load = os.getloadavg()[0]
    rows: dict[str, dict[str, list[float]]] = {}
    for name, (size, step) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            times = contest(python.absolute(), size, step, rounds, Path(folder))
        rows[name] = quartiles_us(times)
    figures = {
        "command": f"compiled_read.py, {rounds} turns of {READS} reads",
        "python": version_of(python),
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
        "microseconds": rows,
    }
    click.echo(table(figures))
    if json_path is not None:
        json_path.write_text(json.dumps(figures, indent=2) + "\n")
    if page is not None:
        replace_between(page, "compiled read", table(figures))


def table(figures: dict[str, Any]) -> str:
    """What the page shows."""
    lines = ["| read | compiled | interpreted | interpreted / compiled |", "| --- | --- | --- | --- |"]
    for name, row in figures["microseconds"].items():
        times = [shown(row["compiled"]), shown(row["interpreted"])]
        ratio = row["interpreted"][1] / row["compiled"][1]
        lines.append(f"| {name} | {' | '.join(times)} | {ratio:.1f} |")
    before, after = figures["load"]
    lines += [
        "",
        f"`{figures['command']}`, Python {figures['python']}, load {before} before and {after} after.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
