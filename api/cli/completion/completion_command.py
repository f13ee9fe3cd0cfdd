"""``girih completion``: the script that a shell runs to complete words of girih."""

from __future__ import annotations

import click
from click.shell_completion import add_completion_class, get_completion_class

from .bash_completion import QuotingBashComplete

_SHELLS = ("bash", "zsh", "fish")

add_completion_class(QuotingBashComplete, "bash")


@click.command("completion", short_help="Print what a shell needs to complete words of girih.")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print the script that completes girih's commands and options in SHELL.

    \b
    Examples:
      eval "$(girih completion bash)"          # in ~/.bashrc
      eval "$(girih completion zsh)"           # in ~/.zshrc
      girih completion fish | source           # in config.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "girih", "_GIRIH_COMPLETE").source())
