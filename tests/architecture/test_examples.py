"""The examples in docstrings run and print what they say.

Goal: no example in the sources goes stale. Method: doctest over every module that has a prompt in it,
imported by its installed name, in an empty working directory that takes its temporary
files too.
"""

import doctest
import importlib
import tempfile
from pathlib import Path

import pytest

from support.sources import Source, package_sources

WITH_EXAMPLES = [source for source in package_sources() if ">>> " in source.text]


@pytest.mark.parametrize("source", WITH_EXAMPLES, ids=lambda source: source.path)
def test_the_examples_run(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every `>>>` of the module gives the answer below it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(source.module)):
        runner.run(test, out=said.append)
    assert runner.tries > 0, f"{source.path} shows an example that doctest does not find"
    assert runner.failures == 0, "".join(said)
