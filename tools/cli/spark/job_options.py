"""Arguments and options that the Spark commands share, with one wording for each."""

from pathlib import Path
from typing import Annotated

import typer

from mqstore.tools.cli.options import shell_path

__all__ = ["ConfOption", "MasterOption", "PartitionBytesOption", "StoresArgument"]

StoresArgument = Annotated[
    list[Path],
    typer.Argument(
        parser=shell_path,
        metavar="STORE...",
        help="Directories of stores, where every machine of Spark sees them.",
    ),
]
MasterOption = Annotated[
    str, typer.Option("--master", metavar="URL", help="As Spark names it: local[4], spark://host:7077, yarn.")
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="One of Spark's settings. Repeatable."),
]
PartitionBytesOption = Annotated[
    int | None,
    typer.Option("--max-partition-bytes", min=1, help="What one task reads of the log at most."),
]
