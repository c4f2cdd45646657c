"""Docstrings as Markdown: examples at the prompt become blocks of code."""

import re
from typing import Any

import griffe

__all__ = ["Prompts"]

_EXAMPLE = re.compile(r"^( *)>>> .*(?:\n(?! *$).*)*", re.MULTILINE)


def fenced(text: str) -> str:
    """The text with its examples, each up to the next empty line, in fences."""
    return _EXAMPLE.sub(lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", text)


class Prompts(griffe.Extension):
    """Changes the docstring of each object that griffe reads."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
