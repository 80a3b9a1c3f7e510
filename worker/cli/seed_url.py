"""A seed article out of a page of the web: fetched, extracted, shown, and confirmed."""

import codecs
import logging
import re
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from encoder.errors import InputError
from worker.cli.fetch import SECONDS, Page, fetch, within
from worker.cli.seed_files import SeedDraft
from worker.cli.table import cut
from worker.visible import one_line

if TYPE_CHECKING:
    from worker.seeds import Seed

SHORTEST = 200  # characters; less is a menu or a notice, not an article
LEAD = 300
LONGEST_ID = 60
META_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE
)
WORD = re.compile(r"[^\W_]+")


def draft_of_url(url: str, yes: bool) -> SeedDraft:
    """The article behind an address, as a seed that is not published yet."""
    if not yes and not at_terminal():
        raise InputError("--url asks before it publishes, and there is no terminal; give --yes")
    page = fetch(url)
    record = within(SECONDS, lambda: extracted(page), url)
    return SeedDraft(seed_id(record["title"], page.url), record, url)


def at_terminal() -> bool:
    """Whether somebody is there to be asked."""
    return sys.stdin.isatty()


def extracted(page: Page) -> dict[str, Any]:
    """The article of a page: its title, its text, its address."""
    import trafilatura

    logging.getLogger("trafilatura").addHandler(logging.NullHandler())
    logging.getLogger("trafilatura").propagate = False
    found = trafilatura.bare_extraction(
        decoded(page), url=page.url, with_metadata=True, include_comments=False,
        include_tables=False,
    )  # fmt: skip
    text = (found.text or "").strip() if found else ""
    if len(text) < SHORTEST:
        raise InputError(f"{page.url}: holds no article that can be read; save it and add the file")
    return {"text": text, "title": one_line(found.title or ""), "url": page.url}


def decoded(page: Page) -> str:
    """The page as text, by its byte order mark, its header, its head, or as UTF-8."""
    if page.body.startswith(codecs.BOM_UTF8):
        return page.body[3:].decode("utf-8", "replace")
    if page.body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return page.body.decode("utf-16", "replace")
    named = META_CHARSET.search(page.body[:4096])
    for charset in (page.charset, named[1].decode() if named else None, "utf-8"):
        try:
            return page.body.decode(charset or "unnamed")
        except (LookupError, UnicodeError):
            continue
    return page.body.decode("cp1252", "replace")


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


def confirmed(seed: "Seed") -> None:
    """Show what was taken from the page, and go on only if that is what was meant."""
    click.echo(f"id      {one_line(seed.id)}", err=True)
    click.echo(f"title   {one_line(seed.title) or '-'}", err=True)
    click.echo(f"length  {len(seed.text.split()):,} words", err=True)
    click.echo(f"lead    {cut(one_line(seed.text), LEAD)}\n", err=True)
    if not click.confirm("Publish this article as a seed?", err=True):
        raise click.Abort
