"""Types of arguments and options: paths, all by one rule; amounts; members of an enumeration."""

import enum
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from mqstore.store.errors import ConfigIllegal
from mqstore.store_layout import user_path

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = [
    "AMOUNT",
    "AMOUNT_OR_NONE",
    "EXISTING_FILE",
    "EXISTING_PATH",
    "SHELL_PATH",
    "MemberOf",
    "ShellPath",
]

MemberT = TypeVar("MemberT", bound=enum.StrEnum)


class ShellPath(click.ParamType):  # type: ignore[type-arg] # generic in new versions of Click only
    """A path of the command line: a shell expands `~` at the beginning of a word, not in --config=~/x."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if value == "":
            # As a path it would be the current directory, which nobody means who has an unset variable.
            self.fail("the path is empty: give . for the current directory", param, ctx)
        try:
            return user_path(value)
        except ConfigIllegal as error:
            self.fail(str(error), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """The shell completes it: it knows the files."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


class _ExistingPath(ShellPath):
    """As `ShellPath`, of something that is there."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = super().convert(value, param, ctx)
        if not path.exists():
            self.fail(f"{path} does not exist", param, ctx)
        return path


class _ExistingFile(_ExistingPath):
    """As `_ExistingPath`, and no directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = super().convert(value, param, ctx)
        if path.is_dir():
            self.fail(f"{path} is a directory, where a file belongs", param, ctx)
        return path


SHELL_PATH: Final = ShellPath()
EXISTING_PATH: Final = _ExistingPath()
EXISTING_FILE: Final = _ExistingFile()


class _Amount(click.IntRange):
    """How many: as many as Python can count, if more are wanted."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return int(min(super().convert(value, param, ctx), sys.maxsize))


AMOUNT: Final = _Amount(min=1)
AMOUNT_OR_NONE: Final = _Amount(min=0)


class MemberOf(click.Choice[MemberT]):
    """The members of an enumeration by their values; Click's own choice goes by their names."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        return super().normalize_choice(str(choice), ctx)
