"""`mqstore spark`: jobs over whole logs, on this machine or a cluster. They are safe on a live store.

    $ mqstore spark verify data
    sound: 1,995 records of 1,041,224 bytes in 2 segments

Each command is in a file of its name; what it does is in tools/spark/jobs/, rebuild/ and report/. A missing
pyspark or Java ends it with exit code 1, and says what to install.
"""

import click

from mqstore.tools.cli.command import CommandGroup
from mqstore.tools.cli.spark.export import export
from mqstore.tools.cli.spark.rebuild_queues import rebuild_queues
from mqstore.tools.cli.spark.report import report
from mqstore.tools.cli.spark.verify import verify

__all__ = ["spark"]


@click.group(cls=CommandGroup)
def spark() -> None:
    """Jobs over whole logs: check, export, rebuild the queues, report. They need pyspark and Java 17."""


spark.add_command(verify)
spark.add_command(export)
spark.add_command(rebuild_queues)
spark.add_command(report)
