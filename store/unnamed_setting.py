"""An unnamed setting: the default of a StoreConfig field for which a directory may have its own value.

`MessageStore.open(path)` also opens a store that was written with segments of 1 MiB: if no segment size is
given, the directory's holds. A plain default would look like the same value given on purpose, so these
fields have defaults of types of their own. They compare, print and calculate like plain values, and
`dataclasses.replace` keeps them. In the config of an open store all values are plain.
"""

__all__ = ["UnnamedInt", "UnnamedText"]


class UnnamedInt(int):
    """A whole number that was not given."""

    __slots__ = ()


class UnnamedText(str):
    """A text that was not given."""

    __slots__ = ()
