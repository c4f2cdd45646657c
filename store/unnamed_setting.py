"""An unnamed setting: the default of a field of StoreConfig that a directory may answer instead.

A store that was written with segments of 1 MiB is opened by `MessageStore.open(path)`, too: who names no
segment size means the directory's. A plain default could not be told from the same value given on purpose,
so these fields have a default of a type of its own. It compares, prints and calculates like the plain value,
and `dataclasses.replace` hands it on. In the config of an open store all are plain.
"""

__all__ = ["UnnamedInt", "UnnamedText"]


class UnnamedInt(int):
    """A whole number that nobody named."""

    __slots__ = ()


class UnnamedText(str):
    """A text that nobody named."""

    __slots__ = ()
