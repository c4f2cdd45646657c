"""The templates: everything is escaped, addresses are quoted, and a name that is missing is an error."""

import jinja2
import pytest

from mqstore.tools.cli.ui.page_templates import address, page_templates


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("<b>&\"'", "&lt;b&gt;&amp;&#34;&#39;"),
        ("\u202e\x00", "\\u202e\\u0000"),
        (1234567, "1,234,567"),
        (None, ""),
        (True, "yes"),
    ],
)
def test_a_value_is_text(value: object, text: str) -> None:
    """Escaped, visible, and numbers easy to read."""
    assert page_templates().from_string("{{ value }}").render(value=value) == text


def test_a_missing_value_is_an_error() -> None:
    """A page never shows less than it should without anybody noticing."""
    with pytest.raises(jinja2.UndefinedError):
        page_templates().from_string("{{ missing }}").render()


@pytest.mark.parametrize("name", ["a&b=c", "/../x", "#?%", "ä \ud800", '"><'])
def test_a_name_in_an_address_is_one_parameter(name: str) -> None:
    """Whatever it has in it."""
    made = address("/topic", name=name, queue=0, tags="", key=None)
    assert made.startswith("/topic?name=")
    assert made.endswith("&queue=0")
    assert not set("<>\"'# /") & set(made.removeprefix("/topic"))
