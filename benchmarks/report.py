"""The table of ratios, from the JSON that pytest-benchmark wrote; and the same table into README.md.

usage: python benchmarks/report.py benchmarks/results/latest.json [--readme README.md]

A ratio is the rival's time over ours in neighbouring rounds: above 1 we are faster.
"""

import json
import statistics
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

BEGIN = "<!-- benchmark table: begin -->"
END = "<!-- benchmark table: end -->"
HEADINGS = ("work", "ours, µs", "rival", "rival, µs", "ratio", "least to greatest")


def rows(results: dict[str, Any]) -> list[tuple[str, ...]]:
    """One row a benchmark: medians, and the spread of the ratios."""
    return [
        (
            info["work"],
            f"{statistics.median(info['our_us']):.2f}",
            info["rival"],
            f"{statistics.median(info['rival_us']):.2f}",
            f"{statistics.median(info['ratios']):.1f}",
            f"{min(info['ratios']):.1f} to {max(info['ratios']):.1f}",
        )
        for info in (benchmark["extra_info"] for benchmark in results["benchmarks"])
        if "ratios" in info
    ]


def machine(results: dict[str, Any]) -> str:
    """The machine, the interpreter and the date of the run, in one line."""
    info = results["machine_info"]
    cpu = info["cpu"]
    brand = cpu.get("brand_raw") or info.get("processor") or info["machine"]
    return (
        f"{brand}, {cpu.get('count')} cores, {info['system']} {info['release']}, "
        f"Python {info['python_version']}, {results['datetime'][:10]}; `make bench`"
    )


def markdown(results: dict[str, Any]) -> str:
    """The table as README shows it."""
    lines = [f"| {' | '.join(HEADINGS)} |", "|" + " --- |" * len(HEADINGS)]
    lines += [f"| {' | '.join(row)} |" for row in rows(results)]
    return "\n".join([*lines, "", f"Median of neighbouring rounds. {machine(results)}."])


def write_readme(readme: Path, table: str) -> None:
    """Replace what stands between the two markers."""
    text = readme.read_text("utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    readme.write_text(f"{head}{BEGIN}\n{table}\n{END}{tail}", "utf-8")


def main(results_path: Path, readme: Annotated[Path | None, typer.Option()] = None) -> None:
    """Print the table; with --readme also write it there."""
    results = json.loads(results_path.read_text("utf-8"))
    table = Table(*HEADINGS, title="rival's time / ours", caption=machine(results))
    for row in rows(results):
        table.add_row(*row)
    Console().print(table)
    if readme is not None:
        write_readme(readme, markdown(results))


if __name__ == "__main__":
    typer.run(main)
