"""What the compiled put is worth: processor time of a message, compiled and interpreted, and of rocksdict's.

usage: compiled_put.py PYTHON [--beside PYTHON] [--rounds 200] [--only TEXT] [--json FILE] [--page FILE]

PYTHON has mqstore from a wheel. `--beside` names another build of the interpreter with the same wheel, whose
puts take their turns with the others: Debian's CPython is optimized by profiles and when it is linked, one
that pyenv builds is not.

One row is one message of one thread, the making of it included, without services; a message that is sent back
was put before. All contestants live at the same time, each in a process of its own, and take turns of 500
messages; so what else the machine does hits all of them. The thread's processor time counts, not the wall.
rocksdict, if PYTHON has it, writes its log and does not sync, as ASYNC_FLUSH does; it has no tags, keys or
properties. Its list is a WriteBatch.
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import click
from contest import Contestant, quartiles_us, shown, take_turns, version_of
from report import replace_between

PUTS = 500
_SWITCH = "MQSTORE_DIRECT_PUT"
BESIDE = ", beside"
"""Behind the name of a way to put: that of the other interpreter."""
OURS = """
import sys, time
from mqstore import Message, MessageStore
from mqstore.store.config import StoreConfig
from mqstore.store.record.host import Host
config = StoreConfig(flush_disk_type="SYNC_FLUSH" if {sync} else "ASYNC_FLUSH")
store = MessageStore.open(sys.argv[1], config, start=False)
body, host = b"x" * {size}, Host.parse("192.168.1.10:40000")
failed = store.put_message(Message("orders", body{rich})).physical_offset
def run():
    for _ in range({puts}):
        {step}
"""
ROCKSDICT = """
import itertools, sys, time, rocksdict
database = rocksdict.Rdict(sys.argv[1], rocksdict.Options(raw_mode=True))
body, numbers = b"x" * {size}, itertools.count()
def run():
    for _ in range({puts}):
        {step}
"""
TURNS = """
run()
for _ in sys.stdin:
    start = time.thread_time_ns()
    run()
    print((time.thread_time_ns() - start) / {messages}, flush=True)
"""
RICH = ', tags="created", keys=("order-17",), properties={"region": "eu", "kind": "new"}'
PUT = 'store.put_message(Message("orders", body{fields}))'
LIST = 'store.put_messages([Message("orders", body{fields}) for _ in range({count})])'
ROCKSDICT_PUT = 'database.put(next(numbers).to_bytes(8, "big"), body)'
ROCKSDICT_LIST = (
    "batch = rocksdict.WriteBatch(raw_mode=True); "
    'any(batch.put(next(numbers).to_bytes(8, "big"), body) for _ in range({count})); database.write(batch)'
)


class Case(NamedTuple):
    """What is done again and again: a step of ours, and rocksdict's if it has the like of it."""

    size: int
    step: str
    rival: str = ""
    messages: int = 1
    sync: bool = False


def listed(size: int, count: int, fields: str = "") -> Case:
    """Lists of so many messages; rocksdict's batches have no fields."""
    rival = "" if fields else ROCKSDICT_LIST.format(count=count)
    return Case(size, LIST.format(fields=fields, count=count), rival, messages=count)


CASES = {
    "128 B": Case(128, PUT.format(fields=""), ROCKSDICT_PUT),
    "1 KiB": Case(1024, PUT.format(fields=""), ROCKSDICT_PUT),
    "128 B, key, tag, 2 properties": Case(128, PUT.format(fields=RICH)),
    "1 KiB, key, tag, 2 properties": Case(1024, PUT.format(fields=RICH)),
    "1 KiB, the same and a born host": Case(1024, PUT.format(fields=RICH + ", born_host=host")),
    "128 B, delay level": Case(128, PUT.format(fields=", delay_level=3")),
    "1 KiB, key, tag, 2 properties, delay level": Case(1024, PUT.format(fields=RICH + ", delay_level=3")),
    "128 B, put_messages of 10": listed(128, 10),
    "1 KiB, put_messages of 10": listed(1024, 10),
    "1 KiB, put_messages of 10, key, tag, 2 properties": listed(1024, 10, RICH),
    "128 B, put_messages of 100": listed(128, 100),
    "1 KiB, put_messages of 100": listed(1024, 100),
    "128 B, put_messages of 100, key, tag, 2 properties": listed(128, 100, RICH),
    "1 KiB, put_message_async, SYNC_FLUSH": Case(
        1024, PUT.format(fields="").replace("put_message", "put_message_async"), sync=True
    ),
    "1 KiB, key, tag, 2 properties, sent back": Case(1024, 'store.consumer_send_msg_back("billing", failed)'),
}


def contest(
    python: Path, beside: Path | None, case: Case, rounds: int, folder: Path
) -> dict[str, list[float]]:
    """Nanoseconds of each turn of each contestant."""
    ours = program(OURS, case, case.step)
    contestants = {
        f"{way}{suffix}": Contestant(
            each, ours, folder / f"{way}{suffix}", switch=_SWITCH, is_direct=way == "compiled"
        )
        for each, suffix in ((python, ""), (beside, BESIDE))
        if each is not None
        for way in ("compiled", "interpreted")
    }
    if case.rival and _has_rocksdict(python):
        rival = program(ROCKSDICT, case, case.rival)
        contestants["rocksdict"] = Contestant(
            python, rival, folder / "rocksdict", switch=_SWITCH, is_direct=False
        )
    return take_turns(contestants, rounds)


def program(template: str, case: Case, step: str) -> str:
    """The source of a contestant."""
    source = template + TURNS
    for name, value in {
        "sync": case.sync,
        "size": case.size,
        "rich": RICH,
        "puts": PUTS // case.messages,
        "messages": PUTS,
        "step": step,
    }.items():
        source = source.replace(f"{{{name}}}", str(value))
    return source


def _has_rocksdict(python: Path) -> bool:
    return (
        subprocess.run([str(python), "-c", "import rocksdict"], capture_output=True, check=False).returncode
        == 0
    )


@click.command(context_settings={"show_default": True})
@click.argument("python", type=click.Path(path_type=Path))
@click.option("--beside", type=click.Path(path_type=Path), help="Another build, with the same wheel.")
@click.option("--rounds", type=int, default=200, help="Turns of each contestant.")
@click.option("--only", default="", help="Only the cases whose name has this text.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the figures here.")
@click.option("--page", type=click.Path(path_type=Path), help="Write the table into this page.")
def main(
    python: Path,
    beside: Path | None,
    rounds: int,
    only: str,
    json_path: Path | None,
    page: Path | None,
) -> None:
    """Measure, print, and write the figures."""
    load = os.getloadavg()[0]
    rows: dict[str, dict[str, list[float]]] = {}
    for name, case in CASES.items():
        if only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            times = contest(
                python.absolute(), None if beside is None else beside.absolute(), case, rounds, Path(folder)
            )
        rows[name] = quartiles_us(times)
    figures = {
        "command": f"compiled_put.py, {rounds} turns of {PUTS} messages",
        "python": version_of(python),
        "beside": None if beside is None else version_of(beside),
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
        "microseconds": rows,
    }
    click.echo(table(figures))
    if json_path is not None:
        json_path.write_text(json.dumps(figures, indent=2) + "\n")
    if page is not None:
        replace_between(page, "compiled put", table(figures))


def table(figures: dict[str, Any]) -> str:
    """What the page shows."""
    ways = ["compiled", "interpreted", "rocksdict"]
    ratios = [("interpreted", "compiled"), ("rocksdict", "compiled")]
    if figures["beside"]:
        ways += [f"compiled{BESIDE}", f"interpreted{BESIDE}"]
        ratios.append((f"compiled{BESIDE}", "compiled"))
    titles = ["put", *ways, *(f"{one} / {other}" for one, other in ratios)]
    lines = [f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}"]
    for name, row in figures["microseconds"].items():
        cells = [name, *(shown(row[way]) if way in row else "" for way in ways)]
        cells += [f"{row[one][1] / row[other][1]:.1f}" if one in row else "" for one, other in ratios]
        lines.append(f"| {' | '.join(cells)} |")
    before, after = figures["load"]
    lines += [
        "",
        f"`{figures['command']}`, Python {figures['python']}"
        + (f", beside it Python {figures['beside']}" if figures["beside"] else "")
        + f", load {before} before and {after} after.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
