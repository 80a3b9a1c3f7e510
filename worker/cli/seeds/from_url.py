"""A seed article out of a page of the web: fetched, extracted, shown, and confirmed."""

import re
import sys
from urllib.parse import urlsplit

import click

from encoder.errors import InputError
from worker.cli.seeds.article import article_of
from worker.cli.seeds.fetch import fetch
from worker.cli.seeds.files import SeedDraft
from worker.cli.view.table import cut
from worker.seeds.record import Seed
from worker.visible import one_line

LEAD = 300
LONGEST_ID = 60
WORD = re.compile(r"[^\W_]+")


def draft_of_url(url: str, yes: bool) -> SeedDraft:
    """The article behind an address, as a seed that is not published yet."""
    if not yes and not at_terminal():
        raise InputError("--url asks before it publishes, and there is no terminal; give --yes")
    page = fetch(url)
    record = article_of(page)
    return SeedDraft(seed_id(record["title"], page.url), record, url)


def at_terminal() -> bool:
    """Whether somebody is there to be asked."""
    return sys.stdin.isatty()


def seed_id(title: str, url: str) -> str:
    """An id that people can read: out of the title, else out of the address."""
    parts = urlsplit(url)
    words = WORD.findall(title.lower()) or WORD.findall(f"{parts.hostname} {parts.path}".lower())
    made = ""
    for word in words:
        if len(made) + len(word) >= LONGEST_ID:
            break
        made += f"-{word}"
    return made.strip("-") or cut(words[0], LONGEST_ID)


def confirmed(seed: Seed) -> bool:
    """Show what was taken from the page, and ask whether that is what was meant."""
    click.echo(f"id      {one_line(seed.id)}", err=True)
    click.echo(f"title   {one_line(seed.title) or '-'}", err=True)
    click.echo(f"length  {len(seed.text.split()):,} words", err=True)
    click.echo(f"lead    {cut(one_line(seed.text), LEAD)}\n", err=True)
    return click.confirm("Publish this article as a seed?", err=True)
