"""Default values of StoreConfig that can be told from the same value given by a caller.

`MessageStore.open(path)` also opens a store that was written with segments of 1 MiB: if no segment size is
given, the directory's holds. A plain default would look like the same value given on purpose, so these
fields have defaults of types of their own. They compare, print and calculate like plain values, and
`dataclasses.replace` keeps them. In the config of an open store all values are plain.
"""

__all__ = ["DefaultInt", "DefaultText"]


class DefaultInt(int):
    """A whole number that was not given."""

    __slots__ = ()


class DefaultText(str):
    """A text that was not given."""

    __slots__ = ()
