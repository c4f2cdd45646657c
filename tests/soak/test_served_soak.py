"""A short campaign against `mqstore serve`, and a judge that condemns what it is there for."""

from pathlib import Path

import pytest

from mqstore import MessageStore
from support.soak.journal import Line
from support.soak.served_campaign import judge_served, run_served_soak

SEED = 20_262


@pytest.mark.slow
def test_a_short_campaign_loses_nothing(tmp_path: Path) -> None:
    """Clients are killed and stopped beside rubbish; every request is answered, nothing is left behind."""
    figures = run_served_soak(tmp_path, SEED, 3, 100, processes=2, connections=10)
    assert figures.wrong == [], SEED
    assert figures.malformed == 100
    assert figures.kills + figures.stops > 0
    assert figures.acknowledged > 10


@pytest.mark.parametrize(
    ("planted", "told"),
    [
        (Line("sent", 1, ("lost",)), "acknowledged and lost: lost"),
        (Line("stood", 1, ("load-0", "0", "2")), "a pull of load-0 0 stood at 2, and its queue ends at 3"),
        (Line("unanswered", 1, ("310", "60")), "unanswered: run 1, 310 60"),
        (Line("cut", 1, ("7",)), "cut: run 1, 7"),
    ],
)
def test_the_judge(tmp_path: Path, planted: Line, told: str) -> None:
    with MessageStore.open(tmp_path) as store:
        for body in (b"1", b"2", b"2"):
            store.put("load-0", body)
    sound = [Line("sent", 1, ("1",)), Line("stood", 1, ("load-0", "0", "3")), Line("finished", 1, ("9",))]
    assert judge_served(sound, tmp_path) == ["stored 2 times: 2"]
    assert judge_served([*sound, planted], tmp_path) == [told, "stored 2 times: 2"]
