"""Runs a command of `python -m`."""

import sys

import click

from encoder.errors import NewsiftError


def run_command(command: click.Command) -> None:
    """Run a command; an error of newsift is one line and an exit code."""
    try:
        command()
    except NewsiftError as error:
        click.echo(f"newsift: {error}", err=True)
        sys.exit(error.exit_code)
