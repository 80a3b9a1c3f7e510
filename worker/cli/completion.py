"""`newsift completion`: what makes a shell complete the command's own words."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_NEWSIFT_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion for SHELL, to be put where that shell reads it.

    \b
    bash  eval "$(newsift completion bash)"          in ~/.bashrc
    zsh   eval "$(newsift completion zsh)"           in ~/.zshrc
    fish  newsift completion fish > ~/.config/fish/completions/newsift.fish
    """  # noqa: D301 - the backspace tells click to keep the lines of the list
    kind = get_completion_class(shell)
    assert kind is not None  # click has all three
    command = ctx.find_root().command
    click.echo(kind(command, {}, "newsift", VARIABLE).source())
