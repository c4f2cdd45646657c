"""Rounds of one kind of put: first what each store can do at most, then its latencies at shares of that.

    1  each store puts as fast as it goes, three times in turn: its maximum is the median
    2  in each round each store has one run at each of its rates, in another order each time

The rates: 20 % and 50 % of the store's own maximum, and for a rival those of mqstore as well, unless they are
more than it can do. The control, which does nothing, runs at the rates of mqstore.
"""

import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from latency.puts import EMPTY, IN_PROCESS, Kind
from latency.run import ROCKETMQ_NAME, Done, run

__all__ = ["LOADS", "OURS", "OUR_LOADS", "OWN_LOADS", "Load", "loads_of", "measure"]

OURS = "mqstore"
SHARES = {"20 %": 0.2, "50 %": 0.5}
OWN_LOADS = {f"{name} of its own maximum": share for name, share in SHARES.items()}
OUR_LOADS = {f"{name} of mqstore's maximum": share for name, share in SHARES.items()}
LOADS = (*OWN_LOADS, *OUR_LOADS)
MOST_OF_MAXIMUM = 0.8
"""With more than this share of its maximum a store is never done, if it ever stands still."""
TIMES_AT_MAXIMUM = 3

Load = tuple[str, str, float]
"""One of LOADS, a store, puts a second."""


def loads_of(maxima: dict[str, float]) -> list[Load]:
    """What each store is to do, by the most that each can do."""
    loads = []
    for store, most in maxima.items():
        loads += [(load, store, most * share) for load, share in OWN_LOADS.items()]
        if store != OURS:
            rates = {load: maxima[OURS] * share for load, share in OUR_LOADS.items()}
            loads += [(load, store, rate) for load, rate in rates.items() if rate <= most * MOST_OF_MAXIMUM]
    return loads + [(load, EMPTY, maxima[OURS] * share) for load, share in OUR_LOADS.items()]


def measure(kind: Kind, *, rounds: int, seconds: float, with_rocketmq: bool, parent: Path) -> dict[str, Any]:
    """All rounds, as the results file keeps them (results.py). Directories are made under `parent`."""
    stores = [store for store in IN_PROCESS if store != EMPTY] + [ROCKETMQ_NAME] * with_rocketmq

    def run_at(store: str, rate: float) -> Done:
        done = run(store, kind, rate=rate, seconds=seconds, parent=parent)
        wanted = f"{rate:,.0f}" if rate else "all it can"
        print(f"{kind.title}: {store} does {done.rate:,.0f} puts/s ({wanted})", flush=True)
        return done

    maxima: dict[str, list[float]] = {store: [] for store in stores}
    for _ in range(TIMES_AT_MAXIMUM):
        for store in stores:
            maxima[store].append(run_at(store, 0).rate)
    loads = loads_of({store: statistics.median(rates) for store, rates in maxima.items()})
    return {"maxima": maxima, "runs": _in_turn(loads, rounds, run_at)}


def _in_turn(loads: list[Load], rounds: int, run_at: Callable[[str, float], Done]) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = [
        {"load": load, "store": store, "rate": rate, "rounds": []} for load, store, rate in loads
    ]
    for number in range(rounds):
        # Another order each time: none always follows the same neighbour.
        begin = number * len(runs) // rounds
        for measured in (*runs[begin:], *runs[:begin]):
            load_average = os.getloadavg()[0]
            done = run_at(measured["store"], measured["rate"])
            measured["rounds"].append(
                {
                    "rate": done.rate,
                    "histogram": done.histogram,
                    "segments": done.segments,
                    "fell_behind": done.fell_behind,
                    "load_average": load_average,
                }
            )
    return runs
