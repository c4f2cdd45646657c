"""Goal: a stream is known by its query, so that a checkpoint that is made anew is not taken for the old one.

Method: checkpoint folders as Spark makes them. Writes of a session: tests/spark/test_sink.py.
"""

from pathlib import Path

import pytest

from mqstore.tools.spark.options import SparkOptionIllegal
from mqstore.tools.spark.sink.sink_writers import query_id

METADATA = '{"id":"17982eaa-449e-48e8-8efb-bef9d3956397"}'


def test_the_query_of_a_checkpoint(tmp_path: Path) -> None:
    """A path, or a URL."""
    (tmp_path / "metadata").write_text(METADATA)
    for checkpoint in (str(tmp_path), f"{tmp_path}/", tmp_path.as_uri()):
        assert query_id(checkpoint) == "query-17982eaa-449e-48e8-8efb-bef9d3956397"


@pytest.mark.parametrize("text", [None, "", "{}", '{"id":'])
def test_a_checkpoint_that_tells_nothing(tmp_path: Path, text: str | None) -> None:
    """Rather an error than rows that are taken for those of another query."""
    if text is not None:
        (tmp_path / "metadata").write_text(text)
    with pytest.raises(SparkOptionIllegal, match="give the stream a name"):
        query_id(str(tmp_path))
