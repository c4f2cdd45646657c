"""The scripts in examples/ run as they are and print what they promise, each in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PROMISED = {
    "asyncio_web_service.py": [
        "mail sent: welcome",
        "mail sent: invoice",
        "mail sent: reminder",
        "answered: HTTP/1.1 202 Accepted",
    ],
    "order_timeout.py": ["o-1: cancelled", "o-2: paid"],
    "orderly_by_account.py": [
        "alice: [50, -30, -20], balance 0",
        "bob: [20, -20], balance 0",
        "carol: [5], balance 5",
    ],
    "orders_with_retry.py": [
        "o-1: attempt 1: 42.00",
        "o-2: attempt 1: card expired",
        "o-3: attempt 1: 13.50",
        "o-2: attempt 2: card expired",
        "o-2: attempt 3: card expired",
        "given up: o-2, first sent to orders",
    ],
    "quickstart.py": ["charge order o-1: 42.00", "the send had answered SEND_OK"],
    "several_processes.py": [f"from worker {number}" for number in range(3)],
    "tail_from_another_process.py": [f"read {number}: {number} degrees" for number in range(5)],
    "transaction.py": [
        "seat-1: COMMIT_MESSAGE",
        "seat-2: COMMIT_MESSAGE",
        "seat-1: ROLLBACK_MESSAGE",
        "seat-3: UNKNOW",
        "tickets for: seat-1, seat-2, seat-3",
    ],
    "time_lookup.py": ["the queue stood at offset 3", "since then: noon", "since then: late"],
}


def test_every_example_is_tested() -> None:
    """A new script needs a line in the table above."""
    assert sorted(PROMISED) == sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PROMISED))
def test_an_example_prints_what_it_promises(name: str, tmp_path: Path) -> None:
    """Exit code 0, nothing on standard error, and these lines."""
    ended = subprocess.run(
        [sys.executable, EXAMPLES / name],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        check=False,
    )
    assert (ended.stderr, ended.returncode) == ("", 0)
    assert ended.stdout.splitlines() == PROMISED[name]
