"""The templates of the pages: Jinja2, which escapes all that it is not told to be HTML.

Whatever a template writes goes through `visible` first, so no text of a store turns the direction of the
page. Addresses are made by `address`, every name in them a quoted parameter: a topic may be called `/../`.
Threads: any.
"""

from pathlib import Path
from urllib.parse import urlencode

import jinja2
from markupsafe import Markup

from mqstore.tools.cli.monitoring.top_screen import size_text
from mqstore.tools.cli.times import duration_text, local_time
from mqstore.tools.cli.ui.shown_text import visible

__all__ = ["address", "page_templates"]


def address(path: str, **parameters: object) -> str:
    """The address of a page of ours; parameters that are None or empty are left out.

    >>> address("/topic", name="a&b", queue=0, tags=None)
    '/topic?name=a%26b&queue=0'
    """
    given = {name: str(value) for name, value in parameters.items() if value not in (None, "")}
    return f"{path}?{urlencode(given, errors='replace')}" if given else path


def _finalized(value: object) -> object:
    """What is written for a value of a template. Numbers have commas; nothing is written for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return value


def page_templates() -> jinja2.Environment:
    """The templates beside this file."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        finalize=_finalized,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals["address"] = address
    environment.filters |= {"time": local_time, "duration": duration_text, "size": size_text, "plain": str}
    return environment
