"""Goal: the journal tells what was begun, after any crash of the one that wrote it, and refuses garbage.

Method: entries of several applications; files that were cut.
"""

from pathlib import Path

import pytest

from mqstore.store.errors import StateFileCorrupt
from mqstore.tools.spark.sink.import_journal import Entry, ImportJournal
from mqstore.tools.spark.sink.staged_parts import Part

PART = Part(folder="f", name="p", rows=3, queues={"orders": 2})


def entry(app: str, version: int, *, is_done: bool) -> Entry:
    return Entry(app=app, version=version, is_done=is_done, begin=7, parts=() if is_done else (PART,))


def test_entries_are_kept_by_application(tmp_path: Path) -> None:
    """The last one of each; any text is a name."""
    journal = ImportJournal(tmp_path)
    assert (journal.entry("a"), journal.unfinished()) == (None, [])
    for app in ("a", "../b/ü\n", ""):
        journal.save(entry(app, 1, is_done=False))
        journal.save(entry(app, 2, is_done=app == ""))
    again = ImportJournal(tmp_path)
    assert again.entry("a") == entry("a", 2, is_done=False)
    assert sorted(each.app for each in again.unfinished()) == ["../b/ü\n", "a"]
    assert again.entry("other") is None


def test_a_cut_entry_is_the_one_before(tmp_path: Path) -> None:
    """As any state file; without that one it is an error, and no empty beginning."""
    journal = ImportJournal(tmp_path)
    journal.save(entry("a", 1, is_done=False))
    journal.save(entry("a", 1, is_done=True))
    (path,) = journal.directory.glob("*.json")
    path.write_bytes(path.read_bytes()[:20])
    assert ImportJournal(tmp_path).entry("a") == entry("a", 1, is_done=False)
    path.with_name(path.name + ".bak").unlink()
    with pytest.raises(StateFileCorrupt):
        ImportJournal(tmp_path).unfinished()
