"""`newsift seeds add`: articles read, checked, published, and tried on the last day's posts."""

from dataclasses import replace
from pathlib import Path

import click

from worker.actions.seeds.files import KEYS, read_seed_files, seed_of, undoubted
from worker.actions.seeds.publication import Publication
from worker.actions.seeds.topic import seed_topic
from worker.actions.times import until
from worker.cli.options import JSON, kafka_options
from worker.cli.seeds.from_url import asked_for, confirmed
from worker.cli.seeds.offer import offer_to_learn
from worker.cli.seeds.show import print_told
from worker.cli.terminal import say
from worker.cli.view.table import print_json
from worker.config import Config
from worker.posts.times import rfc3339


@click.command()
@click.argument("files", nargs=-1, metavar="FILE…", type=click.Path(path_type=Path))
@click.option("--url", help="Fetch the page, by HTTPS_PROXY if that is set, and take its article.")
@click.option("--intranet", is_flag=True, help="Let --url be a host of your own network.")
@click.option("--id", "name", metavar="ID", help="The seed's id; else the file's name.")
@click.option("--event", help="The event it is about; else the id.")
@click.option("--title", help="The title; else a first line '# …', or the page's.")
@click.option("--threshold", type=float, help="The score that matches; else automatic.")
@click.option("--expires-at", metavar="TIME", help="When it ends: 7d, or in RFC 3339.")
@click.option("--yes", is_flag=True, help="Publish the article of --url without asking.")
@click.option("--force", is_flag=True, help="Publish what a page holds though it looks like none.")
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
    taken; where that looks like a notice, a menu or a stub it is refused.

    The posts of the last 24 hours are tried on it: 20,000 of them at most and for 5 seconds, 5,000
    and 2 seconds without a terminal. --no-preview, or --json, publishes and is done.
    Where an event has several seeds and no profile, one of them all is offered.
    """
    if bool(files) == (url is not None):
        raise click.UsageError("give files, or --url with one address")
    if intranet and url is None:
        raise click.UsageError("--intranet is for --url")
    drafts = read_seed_files(files) if url is None else [asked_for(url, yes, intranet)]
    if not force:
        undoubted(drafts, ", or give --force")
    if len(drafts) > 1 and (name or title):
        raise click.UsageError("--id and --title are for one article")
    given = {"event": event, "title": title, "threshold": threshold}
    given["expires_at"] = None if expires_at is None else rfc3339(until(expires_at))
    changes = {key: value for key, value in given.items() if value is not None}
    drafts = [replace(d, id=name or d.id, record=d.record | changes) for d in drafts]
    found = [seed_of(draft, config) for draft in drafts]
    if url is not None and not yes and not confirmed(found[0]):
        say("nothing was published")
        return
    preview = not as_json if preview is None else preview
    with seed_topic(config) as topic:
        publication = Publication(topic, config, drafts, found, preview)
        publication.publish()
        _tell_json(publication) if as_json else _tell(publication, config)
        offer_to_learn(topic, config, publication.events, ask=not (yes or as_json))


def _tell(made: Publication, config: Config) -> None:
    """Say what was published, and what would have matched."""
    from worker.cli.seeds.preview import advise, haste, tell

    for draft, seed in made.pairs:
        print_told(seed, made.said(draft), config, made.auto)
    _tell_ignored(made)
    if seen := made.tried(haste()):
        tell(seen, made.events, config.topics.posts)
    advise(made.events)


def _tell_json(made: Publication) -> None:
    """The same for programs."""
    from worker.cli.seeds.preview import haste

    seen = made.tried(haste())
    for draft, seed in made.pairs:
        print_json([made.row(draft, seed, seen)])
    _tell_ignored(made)


def _tell_ignored(made: Publication) -> None:
    for draft, _ in made.pairs:
        if draft.ignored:
            named = ", ".join(draft.ignored)
            say(f"{draft.source}: ignored: {named}; a seed has {', '.join(KEYS)}")
