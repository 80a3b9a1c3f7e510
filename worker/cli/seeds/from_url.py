"""A seed article out of a page of the web: fetched, extracted, shown, and confirmed."""

import sys

import click

from encoder.errors import InputError
from worker.actions.seeds.addresses import OwnNetwork
from worker.actions.seeds.fetch import Bounds, fetch
from worker.actions.seeds.files import SeedDraft, draft_of
from worker.actions.seeds.naming import seed_id
from worker.files.articles.extract import article_of
from worker.seeds.record import Seed
from worker.visible import cut, one_line

LEAD = 300
OPEN = Bounds(besides=", or give --intranet if it is your own network")


def draft_of_url(url: str, yes: bool, intranet: bool) -> SeedDraft:
    """The article behind an address, as a seed that is not published yet."""
    if not yes and not at_terminal():
        raise InputError("--url asks before it publishes, and there is no terminal; give --yes")
    page = fetch(url, Bounds(allow=OwnNetwork()) if intranet else OPEN)
    article = article_of(page)
    return draft_of(article, seed_id(article.title, page.url), url)


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
