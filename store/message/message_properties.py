"""The properties of a message to put, as their stored string, and every way in which they are refused.

`checked_properties` judges any properties and words the error. `ordinary_pairs` is for nearly all messages:
one pass over properties and keys that nothing is odd about. It leaves all others to the thorough way.
Pure functions: any thread.
"""

from collections.abc import Mapping, Sequence

from mqstore.store.errors import PropertiesIllegal
from mqstore.store.message.message import NO_PROPERTIES, Message
from mqstore.store.record.properties_format import (
    CRC32,
    DELAY,
    KEY_SEPARATOR,
    KEYS,
    TAGS,
    WAIT,
    encode_properties,
    refuse_separators,
)

__all__ = ["checked_properties", "join_keys", "ordinary_pairs", "properties_of"]


def ordinary_pairs(properties: Mapping[str, str], keys: str | Sequence[str]) -> str | None:
    r"""The stored text of `properties` and, behind them, of KEYS; None if a thorough look is needed.

    That is the case where anything has to be refused, replaced or left out, and for types that are rare. It
    remains to be seen whether the text has UTF-8, and not too much of it. Raises TypeError for a key that is
    no str, and RuntimeError when another thread changes `properties` meanwhile.

    >>> ordinary_pairs({"region": "eu"}, ("order-1",))
    'region\x01eu\x02KEYS\x01order-1\x02'
    """
    pairs = ""
    if properties is not NO_PROPERTIES:
        if type(properties) is not dict or CRC32 in properties:
            return None
        for name, value in properties.items():
            # All in a row, without a call: `in` looks for one character at the speed of memchr.
            if (
                type(name) is not str
                or type(value) is not str
                or not name
                or not value
                or "\x01" in value
                or "\x02" in value
                or "\x01" in name
                or "\x02" in name
            ):
                return None
            pairs += f"{name}\x01{value}\x02"
    if not keys:
        return pairs
    if type(keys) is tuple or type(keys) is list:
        joined = KEY_SEPARATOR.join(keys)
        # As many blanks as keys: one of them holds a blank.
        if KEY_SEPARATOR in joined and joined.count(KEY_SEPARATOR) >= len(keys):
            return None
    elif type(keys) is str:
        joined = keys
    else:
        return None
    if not joined or "\x01" in joined or "\x02" in joined or KEYS in properties:
        return None
    return f"{pairs}{KEYS}\x01{joined}\x02"


def join_keys(keys: tuple[str, ...]) -> str:
    """The property KEYS of several keys. Raises PropertiesIllegal for one that would come back as two."""
    joined = KEY_SEPARATOR.join(keys)
    if joined.count(KEY_SEPARATOR) >= max(1, len(keys)):
        key = next(key for key in keys if KEY_SEPARATOR in key)
        raise PropertiesIllegal(
            f"the key {key!r} holds a blank, and would be stored as several keys, for RocketMQ parts keys by "
            "blanks: give them one by one, or take the blank out",
            value=key,
            limit="no blank in a key",
        )
    return joined


def properties_of(message: Message) -> bytes:
    r"""All properties of a message as they go to a broker, those of its fields among them.

    Raises PropertiesIllegal.

    >>> properties_of(Message("orders", b"", tags="paid", keys="o-1"))
    b'KEYS\x01o-1\x02TAGS\x01paid\x02'
    """
    properties = dict(message.properties)
    if message.keys:
        properties[KEYS] = message.keys if isinstance(message.keys, str) else join_keys(tuple(message.keys))
    if message.tags:
        properties[TAGS] = message.tags
    if message.delay_level > 0:
        properties[DELAY] = str(message.delay_level)
    if not message.wait_store_msg_ok:
        properties[WAIT] = "false"
    return checked_properties(properties)


def checked_properties(properties: dict[str, str]) -> bytes:
    """The stored string of properties. Raises PropertiesIllegal for pairs that would be read back changed."""
    try:
        encoded = encode_properties(properties)
    except UnicodeEncodeError as error:
        raise PropertiesIllegal(
            f"the properties hold {error.object[error.start : error.end]!r}, which has no UTF-8: take it out",
            value=error.object,
            limit="text that UTF-8 can encode",
        ) from error
    except TypeError as error:
        raise _no_text(properties) from error
    # Counting the separators in the whole string is quick; each pair is checked only if the counts are wrong.
    clean = encoded.count(1) == encoded.count(2) == len(properties)
    if not clean or not all(properties.values()) or "" in properties:
        for name, value in properties.items():
            refuse_separators(name, value)
    return encoded


def _no_text(properties: dict[str, str]) -> PropertiesIllegal:
    pair = next(pair for pair in properties.items() if not all(isinstance(part, str) for part in pair))
    return PropertiesIllegal(
        f"property {pair[0]} is {pair[1]!r}, but name and value must be str: that is what a reader gets",
        value=pair,
        limit="str",
    )
