"""The text of state files: samples of fastjson's output are reproduced byte for byte and read back.

Everything that RocketMQ's readers take is taken, and what is no state is refused.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.store.state.state_file_format import decode, encode, whole_number
from support.stores.state_file_samples import STATE_FILES

SAMPLES = [
    *(pytest.param(state, text, id=name) for name, (text, state) in STATE_FILES.items()),
    pytest.param(
        {"a": None, "b": [], "c": [1, True, 0.5]}, '{\n\t"b":[],\n\t"c":[1,true,0.5]\n}', id="lists"
    ),
]


def with_text_keys(value: object) -> object:
    """As `decode` gives it back: keys are text and nulls are gone."""
    if isinstance(value, dict):
        return {str(key): with_text_keys(item) for key, item in value.items() if item is not None}
    return [with_text_keys(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("state", "text"), SAMPLES)
def test_a_sample_is_written_byte_for_byte(state: dict[str, object], text: str) -> None:
    """encode gives exactly what RocketMQ's encoder gives for the same state."""
    assert encode(state) == text.encode()


@pytest.mark.parametrize(("state", "text"), SAMPLES)
def test_a_sample_is_read_back(state: dict[str, object], text: str) -> None:
    """decode of a sample is the state that it was written from."""
    assert decode(text.encode()) == with_text_keys(state)


@pytest.mark.parametrize(
    "text",
    [
        b'{"offsetTable":{3:24,18:2}}',
        b'{"offsetTable":{"3":24,"18":2}}',
        b' {\r\n "offsetTable" : { 3 : 24 , "18" : 2 } }\n',
    ],
)
def test_integer_keys_are_read_with_and_without_quotes(text: bytes) -> None:
    """Both spellings, with any white space around them."""
    assert decode(text) == {"offsetTable": {"3": 24, "18": 2}}


@pytest.mark.parametrize("inside", ["{3:4}", "a,5:6", '\\"{7:8', "\\\\"])
def test_what_looks_like_a_key_inside_a_string_is_left_alone(inside: str) -> None:
    """Only keys outside of strings are quoted, escaped quotes notwithstanding."""
    text = b'{"a":"%s",1:2}' % inside.encode()
    assert decode(text) == {"a": inside.replace('\\"', '"').replace("\\\\", "\\"), "1": 2}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\0" * 64,
        b"garbage",
        b"[1,2]",
        b"7",
        b'{"a":1',
        b'{"a":1}}',
        b'{"a":"\xff"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        STATE_FILES["delayOffset.json"][0].encode() + b"0000\n\t}\n}",
    ],
)
def test_what_is_no_state_is_a_value_error(text: bytes) -> None:
    """Torn, zeroed, foreign, over-long or endlessly nested text is refused in one way."""
    with pytest.raises(ValueError, match="not the JSON of a state file"):
        decode(text)


def test_strings_are_escaped_as_fastjson_does() -> None:
    """Quotes, control characters and the two line separators; all else is UTF-8 as it is."""
    assert encode({"k": '"\\\b\f\n\r\t\x01\x7f\u2028é飞/'}) == (
        '{\n\t"k":"\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u007F\\u2028é飞/"\n}'.encode()
    )


def test_a_bean_in_a_list_keeps_the_indent_of_its_line() -> None:
    """A list does not indent; the object in it does."""
    assert encode({"a": [{"b": 1}]}) == b'{\n\t"a":[{\n\t\t"b":1\n\t}]\n}'


def test_a_value_of_another_type_is_refused() -> None:
    """What JSON has no word for is a mistake of the caller."""
    with pytest.raises(TypeError, match="holds no bytes"):
        encode({"a": b"x"})


@pytest.mark.parametrize("value", ["7", True, 1.5, None, [1]])
def test_only_whole_numbers_are_whole_numbers(value: object) -> None:
    """An offset that is text, a fraction or a truth value is refused."""
    with pytest.raises(ValueError, match="not a whole number"):
        whole_number(value)


TEXT = st.text(st.characters(exclude_categories=("Cs",)))
STATES = st.recursive(
    st.integers(-(2**63), 2**63 - 1) | st.booleans() | TEXT,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(TEXT, inner, max_size=4)
        | st.dictionaries(st.integers(-(2**31), 2**31 - 1), inner, max_size=4)
    ),
    max_leaves=20,
)


@pytest.mark.slow
@given(st.dictionaries(TEXT, STATES, max_size=5))
def test_any_state_comes_back_as_it_was_written(state: dict[str, object]) -> None:
    """decode(encode(x)) is x, but that integer keys come back as text."""
    assert decode(encode(state)) == with_text_keys(state)
