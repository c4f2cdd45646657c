"""Compiled loops know no position of a field by heart: `*_format.py` names it, and changes it in one place.

Method: in the parsed kernels, the place of each number that is read or written from bytes holds no literal
above 1, and no literal is masked out of a number that was read. Copies and byte-wise loops are not looked at.
"""

import ast
from collections.abc import Iterator

import pytest

from support.sources import Source, package_sources

KERNELS = [source for source in package_sources() if source.path.endswith("_kernels.py")]
WHOLE_NUMBERS = "store/byte_kernels.py"
"""Puts numbers together from their halves, and knows no field."""


def is_access(node: ast.AST) -> bool:
    """Whether this reads or writes a number: read_int(data, at), write_int(data, at, value), ..."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    return node.func.id.lstrip("_").startswith(("read_", "write_")) and len(node.args) > 1


def literals_in(node: ast.AST) -> list[int]:
    constants = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    return [value for value in constants if isinstance(value, int) and value > 1]


def offences_in(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and is_access(node) and literals_in(node.args[1]):
            yield f"{source.at(node.lineno)}  -- {ast.unparse(node)}"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd):
            sides = (node.left, node.right)
            if any(map(is_access, sides)) and any(isinstance(side, ast.Constant) for side in sides):
                yield f"{source.at(node.lineno)}  -- {ast.unparse(node)}"


@pytest.mark.parametrize("source", KERNELS, ids=lambda source: source.path)
def test_a_position_has_a_name(source: Source) -> None:
    """Of a record, an entry, an index entry, a key row: as its format names it."""
    offences = [] if source.path == WHOLE_NUMBERS else list(offences_in(source))
    assert not offences, "take positions and bits from *_format.py and sys_flag.py:\n" + "\n".join(offences)


@pytest.mark.parametrize(
    "text",
    [
        "read_int(data, at + 36)",
        "read_long(data, 20 + at)",
        "read_int(entries, index * 20)",
        "write_big_endian(entries, at + 8, size, 4)",
        "read_int(data, at + SYS_FLAG_POSITION) & 0x10",
    ],
)
def test_the_checker_objects(text: str) -> None:
    """Each way to know a position or a bit by heart is seen, once."""
    assert len(list(offences_in(Source("store/x_kernels.py", text)))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "read_int(data, at + SYS_FLAG_POSITION) & BORN_HOST_V6",
        "write_big_endian(entries, at + SIZE_POSITION, size, 4)",
        "write_int(target, at, 36)",
        "read_unsigned(packed, at + 1, size)",
        "copy_bytes(target, at, data, start + 16, 16)",
    ],
)
def test_the_checker_lets_pass(text: str) -> None:
    """Names, values and copies are no offence."""
    assert not list(offences_in(Source("store/x_kernels.py", text)))
