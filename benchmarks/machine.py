"""The machine of a run: as the results have it, and in words for a table. Its name is not told."""

import os
import platform
from typing import Any

__all__ = ["machine", "machine_in_words"]


def machine() -> dict[str, Any]:
    """For the results' JSON."""
    return {
        "cpu_count": os.cpu_count(),
        "machine": platform.machine(),
        "release": platform.release(),
        "python": platform.python_version(),
    }


def machine_in_words(results: dict[str, Any]) -> str:
    """Of results with `machine`, and with `load` before and after."""
    of, (before, after) = results["machine"], results["load"]
    return (
        f"{of['cpu_count']} processors ({of['machine']}), Linux {of['release']}, Python {of['python']}, "
        f"load {before:.1f} before and {after:.1f} after"
    )
