"""Arguments and options that the Spark commands share, with one wording for each."""

import click

from mqstore.tools.cli.command import Argument
from mqstore.tools.cli.parameter_types import SHELL_PATH
from mqstore.tools.spark.jobs.job_session import ANY_CORES

__all__ = ["conf_option", "master_option", "partition_bytes_option", "stores_argument"]

stores_argument = click.argument(
    "stores",
    cls=Argument,
    type=SHELL_PATH,
    nargs=-1,
    required=True,
    metavar="STORE...",
    help="Directories of stores, where every machine of Spark sees them.",
)
master_option = click.option(
    "--master", default=ANY_CORES, metavar="URL", help="As Spark names it: local[4], spark://host:7077, yarn."
)
conf_option = click.option(
    "--conf", multiple=True, metavar="KEY=VALUE", help="One of Spark's settings. Repeatable."
)
partition_bytes_option = click.option(
    "--max-partition-bytes", type=click.IntRange(min=1), help="What one task reads of the log at most."
)
