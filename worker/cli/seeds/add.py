"""`newsift seeds add`: articles read, checked, published, and tried on the last day's posts."""

from dataclasses import replace
from pathlib import Path

import click

from worker.actions.seeds.addresses import OwnNetwork
from worker.actions.seeds.fetch import Bounds
from worker.actions.seeds.files import SeedDraft, read_seed_files, require_articles, seed_of
from worker.actions.seeds.from_url import draft_of_url
from worker.actions.seeds.topic import seed_topic
from worker.actions.times import until
from worker.cli.options import JSON, kafka_options
from worker.cli.terminal import consented, refuse_unasked
from worker.config import Config
from worker.posts.times import rfc3339
from worker.seeds.record import Seed
from worker.visible import cut, one_line

OPEN = Bounds(besides=", or give --intranet if it is your own network")
LEAD = 300  # characters of a page's article that are shown


@click.command()
@click.argument("files", nargs=-1, metavar="FILE…", type=click.Path(path_type=Path))
@click.option("--url", help="Fetch the page, by HTTPS_PROXY if that is set, and take its article.")
@click.option("--intranet", is_flag=True, help="Let --url be a host of your own network.")
@click.option("--id", "name", metavar="ID", help="The seed's id; else the file's name.")
@click.option("--event", help="The event they are about; else the record's, the folder's, the id.")
@click.option("--title", help="The title; else a first line '# …', or the page's.")
@click.option("--threshold", type=float, help="The score that matches; else automatic.")
@click.option("--expires-at", metavar="TIME", help="When it ends: 7d, or in RFC 3339.")
@click.option("--yes", is_flag=True, help="Publish the article of --url without asking.")
@click.option(
    "--force", is_flag=True, help="Publish what looks like no article, or has fewer than 40 words."
)
@click.option(
    "--preview/--no-preview",
    default=None,
    help="Say the automatic threshold, and what would have matched; as a rule without --json.",
)
@JSON
@kafka_options
def add(
    files: tuple[Path, ...], url: str | None, intranet: bool, name: str | None,
    event: str | None, title: str | None, threshold: float | None, expires_at: str | None,
    yes: bool, force: bool, preview: bool | None, as_json: bool, config: Config,
) -> None:  # fmt: skip
    """Publish articles: text, Markdown, JSON, saved pages, folders of them, or the page at --url.

    A FILE that is - is one article on standard input. Of a page, saved or at --url, the article is
    taken; where that looks like a notice, a menu or a stub it is refused, and so is an article of
    fewer than 40 words. A subfolder of a folder is an event of its name.

    The posts of the last 24 hours are tried on it: 20,000 of them at most and for 5 seconds, 5,000
    and 2 seconds without a terminal. --no-preview, or --json, publishes and is done.
    Where an event has several seeds and no profile, one of them all is offered.
    """
    if bool(files) == (url is not None):
        raise click.UsageError("give files, or --url with one address")
    if intranet and url is None:
        raise click.UsageError("--intranet is for --url")
    drafts = read_seed_files(files) if url is None else [_of_page(url, yes, intranet)]
    if len(drafts) > 1 and (name or title):
        raise click.UsageError("--id and --title are for one article")
    given = {"event": event, "title": title, "threshold": threshold}
    given["expires_at"] = None if expires_at is None else rfc3339(until(expires_at))
    changes = {key: value for key, value in given.items() if value is not None}
    drafts = [replace(d, id=name or d.id, record=d.record | changes) for d in drafts]
    found = [seed_of(draft, config) for draft in drafts]
    if not force:
        require_articles(drafts)
    if url is not None and not yes and not _confirmed(found[0]):
        return
    from worker.actions.seeds.publication import Publication
    from worker.cli.seeds.preview import offer_to_learn, tell_published

    preview = not as_json if preview is None else preview
    with seed_topic(config) as topic:
        made = Publication(topic, config, drafts, found, preview)
        made.publish()
        tell_published(made, config, as_json)
        offer_to_learn(topic, config, made.events, ask=not (yes or as_json))


def _of_page(url: str, yes: bool, intranet: bool) -> SeedDraft:
    """The article behind an address; nothing is fetched where nobody could be asked about it."""
    refuse_unasked(yes, "--url")
    return draft_of_url(url, Bounds(allow=OwnNetwork()) if intranet else OPEN)


def _confirmed(seed: Seed) -> bool:
    """Show what was taken from the page, and ask whether that is what was meant."""
    click.echo(f"id      {one_line(seed.id)}", err=True)
    click.echo(f"title   {one_line(seed.title) or '-'}", err=True)
    click.echo(f"length  {len(seed.text.split()):,} words", err=True)
    click.echo(f"lead    {cut(one_line(seed.text), LEAD)}\n", err=True)
    return consented(False, "Publish this article as a seed?")
