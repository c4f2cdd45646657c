"""The figures of the fuzzers as a table, and the page that shows those of the last run of full length."""

from typing import Any

from support.crash.figures import with_text_between

__all__ = ["BEGIN", "END", "fuzz_table", "with_fuzz_figures"]

BEGIN = "<!-- figures: written by `make fuzz` -->"
END = "<!-- end of fuzz figures -->"

_ROWS = (
    ("hostile stores", "cases"),
    ("calls to them", "calls"),
    ("... refused by an error with a name", "refusals"),
    ("slowest store, all calls together, s", "slowest_seconds"),
    ("most memory more than before, resident, MiB", "most_resident_mib"),
    ("stores that failed: signal, hang, memory, disk, another error", "failed"),
)
_NAMES = {"usual": "as shipped", "checked": "all bounds checked"}


def fuzz_table(figures: dict[str, dict[str, Any]]) -> str:
    """One column for each kind of run."""
    kinds = [kind for kind in _NAMES if kind in figures]
    lines = [
        f"| what | {' | '.join(_NAMES[kind] for kind in kinds)} |",
        f"| --- |{' ---: |' * len(kinds)}",
    ]
    lines += [
        f"| {name} | {' | '.join(f'{figures[kind][key]:,}' for kind in kinds)} |" for name, key in _ROWS
    ]
    for kind in kinds:
        run = figures[kind]
        name = _NAMES[kind]
        lines += [
            "",
            (
                f"{name[0].upper()}{name[1:]}: {run['seconds']} s with {run['workers']} workers on "
                f"{run['machine']}, Python {run['python']}: `{run['command']}`."
            ),
        ]
    return "\n".join(lines)


def with_fuzz_figures(page: str, figures: dict[str, dict[str, Any]]) -> str:
    """`page` with these figures between its two marks."""
    return with_text_between(page, BEGIN, END, fuzz_table(figures))
