"""Rounds: which store runs at which rate.

Goal: each rival is measured at its own rates and at ours, but never at one that it cannot keep up with.
Method: maxima written down by hand.
"""

from latency.puts import EMPTY
from latency.rounds import OUR_LOADS, OWN_LOADS, loads_of

MAXIMA = {"mqstore": 100_000.0, "RocketMQ": 200_000.0, "SQLite": 20_000.0, "rocksdict": 26_000.0}


def rates_of(store: str) -> dict[str, float]:
    return {load: round(rate) for load, name, rate in loads_of(MAXIMA) if name == store}


def test_each_store_has_its_own_rates() -> None:
    """20 % and 50 % of what it can do at most."""
    for store, most in MAXIMA.items():
        rates = rates_of(store)
        assert [rates[load] for load in OWN_LOADS] == [most * 0.2, most * 0.5]


def test_rivals_run_at_our_rates_where_they_can() -> None:
    """Up to 80 % of what they can do: a store that can do no more never gets over a stall."""
    at_ours = {
        store: [rate for load, rate in rates_of(store).items() if load in OUR_LOADS] for store in MAXIMA
    }
    assert at_ours == {
        "mqstore": [],
        "RocketMQ": [20_000, 50_000],
        "SQLite": [],
        "rocksdict": [20_000],
    }


def test_the_control_runs_at_our_rates() -> None:
    """The generator's own precision is measured where its figures are used."""
    assert list(rates_of(EMPTY).values()) == [20_000, 50_000]
