"""A seed article out of a page of the web, shown and confirmed."""

import sys

import click

from encoder.errors import InputError
from worker.actions.seeds.addresses import OwnNetwork
from worker.actions.seeds.fetch import Bounds
from worker.actions.seeds.files import SeedDraft
from worker.actions.seeds.from_url import draft_of_url
from worker.seeds.record import Seed
from worker.visible import cut, one_line

LEAD = 300
OPEN = Bounds(besides=", or give --intranet if it is your own network")


def asked_for(url: str, yes: bool, intranet: bool) -> SeedDraft:
    """The article behind an address; nothing is fetched where nobody could be asked about it."""
    if not yes and not at_terminal():
        raise InputError("--url asks before it publishes, and there is no terminal; give --yes")
    return draft_of_url(url, Bounds(allow=OwnNetwork()) if intranet else OPEN)


def at_terminal() -> bool:
    """Whether somebody is there to be asked."""
    return sys.stdin.isatty()


def confirmed(seed: Seed) -> bool:
    """Show what was taken from the page, and ask whether that is what was meant."""
    click.echo(f"id      {one_line(seed.id)}", err=True)
    click.echo(f"title   {one_line(seed.title) or '-'}", err=True)
    click.echo(f"length  {len(seed.text.split()):,} words", err=True)
    click.echo(f"lead    {cut(one_line(seed.text), LEAD)}\n", err=True)
    return click.confirm("Publish this article as a seed?", err=True)
