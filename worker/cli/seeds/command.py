"""`newsift seeds`: the articles that posts are compared with, on the control topic."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from encoder.errors import InputError
from worker.cli.keyed import Latest
from worker.cli.options import JSON, kafka_options
from worker.cli.seeds.files import KEYS, SeedDraft, read_seed_files, undoubted
from worker.cli.seeds.follow import follow
from worker.cli.seeds.from_url import confirmed, draft_of_url
from worker.cli.seeds.offer import offer_to_learn
from worker.cli.seeds.show import print_seed, print_table, print_told, rows_of, whole_row
from worker.cli.seeds.topic import known, seed_topic
from worker.cli.seeds.transfer import export, import_seeds
from worker.cli.terminal import say
from worker.cli.view.table import print_json
from worker.cli.view.times import until
from worker.config import Config
from worker.posts.times import rfc3339
from worker.seeds.profile import read_record
from worker.seeds.record import PREFIX, RefusedSeed, Seed, read_seed
from worker.visible import one_line

AUTO = "auto"
NEVER = "never"


@click.group()
def seeds() -> None:
    """List, add, change and remove the articles that posts are compared with.

    A change takes effect in every running worker within a second.
    """


seeds.add_command(export)
seeds.add_command(follow)
seeds.add_command(import_seeds)


@seeds.command()
@click.argument("files", nargs=-1, metavar="FILE…", type=click.Path(path_type=Path))
@click.option("--url", help="Fetch the page and take the article out of it.")
@click.option("--intranet", is_flag=True, help="Let --url be a host of your own network.")
@click.option("--id", "name", metavar="ID", help="The seed's id; else the file's name.")
@click.option("--event", help="The event it is about; else the id.")
@click.option("--title", help="The title; else a first line '# …', or the page's.")
@click.option("--threshold", type=float, help="The score that matches; else automatic.")
@click.option("--expires-at", metavar="TIME", help="When it ends: 7d, or in RFC 3339.")
@click.option("--yes", is_flag=True, help="Publish the article of --url without asking.")
@click.option("--force", is_flag=True, help="Publish what a page holds though it looks like none.")
@JSON
@kafka_options
def add(
    files: tuple[Path, ...], url: str | None, intranet: bool, name: str | None,
    event: str | None, title: str | None, threshold: float | None, expires_at: str | None,
    yes: bool, force: bool, as_json: bool, config: Config,
) -> None:  # fmt: skip
    """Publish articles: text, Markdown, JSON, saved pages, folders of them, or the page at --url.

    A FILE that is - is one article on standard input. Of a page, saved or at --url, the article is
    taken; where that looks like a notice, a menu or a stub it is refused.
    Where an event has several seeds and no profile, one of them all is offered.
    """
    if bool(files) == (url is not None):
        raise click.UsageError("give files, or --url with one address")
    if intranet and url is None:
        raise click.UsageError("--intranet is for --url")
    drafts = read_seed_files(files) if url is None else [draft_of_url(url, yes, intranet)]
    if not force:
        undoubted(drafts, ", or give --force")
    if len(drafts) > 1 and (name or title):
        raise click.UsageError("--id and --title are for one article")
    given = {"event": event, "title": title, "threshold": threshold}
    given["expires_at"] = None if expires_at is None else rfc3339(until(expires_at))
    changes = {key: value for key, value in given.items() if value is not None}
    drafts = [replace(d, id=name or d.id, record=d.record | changes) for d in drafts]
    found = [_article(draft, config) for draft in drafts]
    if url is not None and not yes and not confirmed(found[0]):
        say("nothing was published")
        return
    with seed_topic(config) as topic:
        before = topic.latest()
        topic.publish({draft.key: draft.value for draft in drafts})
        for draft, seed in zip(drafts, found, strict=True):
            print_told(seed, _said(before, draft), config, as_json)
            if draft.ignored:
                named = ", ".join(draft.ignored)
                say(f"{draft.source}: ignored: {named}; a seed has {', '.join(KEYS)}")
        offer_to_learn(topic, config, found, ask=not (yes or as_json))


@seeds.command("list")
@JSON
@kafka_options
def list_seeds(as_json: bool, config: Config) -> None:
    """List the seeds, and those that are refused with the reason."""
    with seed_topic(config) as topic:
        rows = rows_of(topic.latest(), config)
    if as_json:
        print_json(rows)
    else:
        print_table(rows)


@seeds.command("show")
@click.argument("name", metavar="ID")
@JSON
@kafka_options
def show_seed(name: str, as_json: bool, config: Config) -> None:
    """Show one seed whole."""
    with seed_topic(config) as topic:
        latest = topic.latest()
    row = whole_row(latest, known(latest, name), config)
    if as_json:
        print_json([row])
    else:
        print_seed(row)


@seeds.command()
@click.argument("names", nargs=-1, required=True, metavar="ID…")
@kafka_options
def remove(names: tuple[str, ...], config: Config) -> None:
    """Delete seeds; all of them, or none if one is unknown."""
    with seed_topic(config) as topic:
        latest = topic.latest()
        topic.publish(dict.fromkeys([known(latest, name) for name in names]))
    for name in names:
        click.echo(f"{one_line(name)}  removed")


@seeds.command("set")
@click.argument("name", metavar="ID")
@click.option("--threshold", metavar="SCORE", help="The score that matches, or 'auto'.")
@click.option("--event", help="The event it is about.")
@click.option("--title", help="The title; this changes the seed's version.")
@click.option("--url", help="The article's address, for the record.")
@click.option("--expires-at", metavar="TIME", help="When it ends: 7d, RFC 3339, or 'never'.")
@click.option("--paused/--resumed", default=None, help="Match nothing for now, or go on.")
@JSON
@kafka_options
def change(
    name: str, threshold: str | None, event: str | None, title: str | None, url: str | None,
    expires_at: str | None, paused: bool | None, as_json: bool, config: Config,
) -> None:  # fmt: skip
    """Publish a seed's latest record again with changes; what is not named stays as it is."""
    given = {"event": event, "title": title, "url": url}
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if threshold is not None:
        changes["threshold"] = _score(threshold)
    if expires_at is not None:
        changes["expires_at"] = None if expires_at == NEVER else rfc3339(until(expires_at))
    if paused is not None:
        changes["paused"] = paused or None
    if not changes:
        raise click.UsageError("nothing to change; see newsift seeds set --help")
    if name.startswith(PREFIX):
        if changes.keys() != {"threshold"}:
            raise click.UsageError("of a profile only the threshold can be set")
        changes["promise"] = None  # it was of another threshold
    with seed_topic(config) as topic:
        latest = topic.latest()
        key = known(latest, name)
        draft = SeedDraft(name, _record(name, latest[key].value) | changes, f"seed {name!r}")
        seed = read_record(key, draft.value, config.limits)
        if seed is None or isinstance(seed, RefusedSeed):
            raise _refusal(seed, draft)
        topic.publish({key: draft.value})
    print_told(seed, "changed", config, as_json)


def _article(draft: SeedDraft, config: Config) -> Seed:
    """The seed as every worker will read it; refused here rather than there."""
    found = read_seed(draft.key, draft.value, config.limits)
    if not isinstance(found, Seed):
        raise _refusal(found, draft)
    return found


def _refusal(found: RefusedSeed | None, draft: SeedDraft) -> InputError:
    return InputError(f"{draft.source}: {'is empty' if found is None else found.reason}")


def _record(name: str, value: bytes | None) -> dict[str, Any]:
    """The latest record of a seed as it is, unknown keys included."""
    try:
        found = json.loads(value or b"")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError(f"seed {name!r}: its record is no JSON object; add the seed again")
    return found


def _score(text: str) -> float | None:
    if text == AUTO:
        return None
    try:
        return float(text)
    except ValueError:
        said = f"--threshold {text!r}: give a score above 0, at most 1, or auto"
        raise InputError(said) from None


def _said(before: Latest, draft: SeedDraft) -> str:
    record = before.get(draft.key)
    if record is None or record.value is None:
        return "new"
    return "unchanged" if record.value == draft.value else "replaced"
