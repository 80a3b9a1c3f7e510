"""Commands of `python -m`: what newsift refuses is one line."""

import sys

import click

from encoder.errors import NewsiftError


def plainly(command: click.Command) -> None:
    """Run a command; an error of newsift is one line and an exit code."""
    try:
        command()
    except NewsiftError as error:
        click.echo(f"newsift: {error}", err=True)
        sys.exit(error.exit_code)
