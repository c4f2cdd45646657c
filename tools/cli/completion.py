"""`mqstore completion`: the script by which a shell completes commands, options and files.

    $ eval "$(mqstore completion bash)"

In ~/.bashrc or ~/.zshrc, or for fish `mqstore completion fish | source` in ~/.config/fish/config.fish.
"""

import click
from click.shell_completion import get_completion_class

from mqstore.tools.cli.command import Argument, Command

__all__ = ["completion"]

_SHELLS = ("bash", "zsh", "fish")


@click.command(cls=Command)
@click.argument("shell", cls=Argument, type=click.Choice(_SHELLS), help="The shell that is to complete.")
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script by which a shell completes commands, options and files.

    Example: eval "$(mqstore completion bash)"
    """
    kind = get_completion_class(shell)
    assert kind is not None  # Click has one for each of them
    click.echo(kind(context.find_root().command, {}, "mqstore", "_MQSTORE_COMPLETE").source())
