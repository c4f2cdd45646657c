"""Goal: docs/spark.md has every option and every column, and no other. Method: compare tables with code."""

import re
from pathlib import Path

from pyspark.sql.types import StructType

from mqstore.tools.spark import options
from mqstore.tools.spark.schema import FIELDS, SCHEMA

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


def _rows(section: str) -> list[list[str]]:
    text = PAGE.read_text("utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    assert rows
    return rows


def _names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_option_is_documented() -> None:
    """By its name, in the first column."""
    documented = [name for row in _rows("Options") for name in _names(row[0])]
    assert sorted(documented) == sorted(options._NAMES)


def test_every_column_is_documented_with_its_type() -> None:
    """Those on request as well."""
    documented = {name: row[1].strip() for row in _rows("Columns") for name in _names(row[0])}
    assert list(documented) == list(FIELDS)
    for field in StructType(SCHEMA.fields):
        kind = documented[field.name].replace("&lt;", "<").replace("&gt;", ">")
        assert kind == field.dataType.simpleString()
