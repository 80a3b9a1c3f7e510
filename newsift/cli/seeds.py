"""`newsift seeds`: list, add, change, follow, move and remove seeds."""

from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from yarl import URL

from encoder.errors import InputError
from newsift.cli.group import CommandGroup
from newsift.cli.options import JSON, PATH, kafka_options, option_group
from newsift.cli.output import print_fields, print_json, table
from newsift.cli.signals import Terminated
from newsift.cli.terminal import confirm_publish, require_yes
from newsift.collect.state import lock_state
from newsift.files.read import DASH
from newsift.files.records import ENDINGS, read_records, write_records
from newsift.files.write import check_targets
from newsift.files.writers import check_ending
from newsift.operations.feeds import (
    Follower,
    FollowOptions,
    default_feed_state,
    read_feed_state,
)
from newsift.operations.messages import notify, notify_version
from newsift.operations.seed_drafts import (
    change_seeds,
    fetch_draft,
    parse_seed,
    read_seed_files,
    require_articles,
)
from newsift.operations.seed_rows import SeedRow, publication_text, seed_fields, threshold_text
from newsift.operations.seed_topic import find_key, seed_topic
from newsift.operations.times import parse_seconds, parse_until
from newsift.web.addresses import PrivateFirst
from newsift.web.client import SAVE_THE_TEXT, RequestLimits, parse_web_address
from newsift.web.feeds import PoliteWeb
from worker.config import Config
from worker.posts.times import rfc3339
from worker.seeds.record import PROFILE_PREFIX, Seed, parse_event
from worker.seeds.state import parse_control_state
from worker.text import one_line, plural, shorten

HEADER = ("id", "state", "event", "seed_version", "threshold", "expires_at", "title")
PUBLIC_FEEDS = RequestLimits(
    remedy=f"{SAVE_THE_TEXT}, or give --intranet if FEED is in your own network"
)
PUBLIC_PAGES = RequestLimits(
    remedy=f"{SAVE_THE_TEXT}, or give --intranet if it is your own network"
)
MAX_LEAD_CHARS = 300
MAX_REPORTED_SEEDS = 10  # refused ones
AUTO, NEVER = "auto", "never"


@click.group(cls=CommandGroup)
def seeds() -> None:
    """List, add, change and remove the articles that posts are compared with.

    A change takes effect in every running worker within a second.
    """


@seeds.command("list")
@JSON
@kafka_options
def list_seeds(as_json: bool, config: Config) -> None:
    """List the seeds with their thresholds, and those that are refused with the reason."""
    from newsift.operations.model_context import list_seed_rows

    with seed_topic(config) as topic:
        state = topic.state()
    rows = list_seed_rows(state, config)
    if as_json:
        print_json(rows)
    elif not rows:
        notify("no seeds; add one with `newsift seeds add FILE`")
    else:
        header = [name.removeprefix("seed_").removesuffix("_at") for name in HEADER]
        cells = (_table_row(row, config.matching.threshold) for row in rows)
        table(header, [[row.get(name) for name in HEADER] for row in cells])


def _table_row(row: SeedRow, default: float | None) -> SeedRow:
    title = f"for {', '.join(row['seeds'])}" if "seeds" in row else row.get("title")
    row = row | {"title": row.get("reason", title)}
    if row["state"] == "refused":
        return row
    return row | {"threshold": threshold_text(row["threshold"], default, row.get("auto_threshold"))}


@seeds.command("show")
@click.argument("name", metavar="ID")
@JSON
@kafka_options
def show_seed(name: str, as_json: bool, config: Config) -> None:
    """Show a seed with its whole text."""
    from newsift.operations.model_context import full_seed_row

    with seed_topic(config) as topic:
        state = topic.state()
    row = full_seed_row(state, find_key(state, name), config)
    if as_json:
        print_json([row])
        return
    if "threshold" in row:
        default, automatic = config.matching.threshold, row.get("auto_threshold")
        row["threshold"] = threshold_text(row["threshold"], default, automatic)
    last = ("text", "value", "auto_threshold")
    print_fields({name: value for name, value in row.items() if name not in last})
    click.echo()
    for line in str(row.get("text") or row.get("value") or "").splitlines():
        click.echo(one_line(line))


@dataclass(frozen=True, slots=True)
class DraftChanges:
    """What the command line says of the articles."""

    name: str | None
    event: str | None
    title: str | None
    threshold: float | None
    expires_at: str | None

    @property
    def fields(self) -> dict[str, Any]:
        ends = None if self.expires_at is None else rfc3339(parse_until(self.expires_at))
        fields = {
            "event": self.event, "title": self.title, "threshold": self.threshold,
            "expires_at": ends,
        }  # fmt: skip
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class AddMode:
    yes: bool
    force: bool
    preview: bool | None
    as_json: bool


@seeds.command()
@click.argument("files", nargs=-1, metavar="FILE…", type=PATH)
@click.option(
    "--url", help="Fetch the page, through HTTPS_PROXY if it is set, and use its article."
)
@click.option("--intranet", is_flag=True, help="Allow --url to be on a host of your own network.")
@option_group(
    "changes",
    DraftChanges,
    click.option("--id", "name", metavar="ID", help="The seed's id; by default the file's name."),
    click.option("--event",
                 help="The event; by default that of the record or folder, else the seed's id."),
    click.option("--title", help="The title; by default a first line '# …', or the page's title."),
    click.option("--threshold", type=float,
                 help="The lowest score that matches; by default automatic."),
    click.option("--expires-at", metavar="TIME",
                 help="When the seed expires: 7d, or a time in RFC 3339."),
)  # fmt: skip
@option_group(
    "mode",
    AddMode,
    click.option("--yes", is_flag=True, help="Publish the article of --url without asking."),
    click.option("--force", is_flag=True,
                 help="Publish what looks like no article, has < 40 words or another language."),
    click.option("--preview/--no-preview", default=None,
                 help="Show the automatic threshold and what would have matched; default without "
                 "--json."),
    JSON,
)  # fmt: skip
@kafka_options
def add(
    files: tuple[Path, ...], url: str | None, intranet: bool, changes: DraftChanges, mode: AddMode,
    config: Config,
) -> None:  # fmt: skip
    """Publish articles: text, Markdown, JSON, saved pages, folders of them, or the page at --url.

    The FILE - is one article on standard input. From a page, saved or at --url, the article is
    extracted. What looks like a notice, a menu or a stub is refused, and so is an article of fewer
    than 40 words, or in another language than the model's. Each subfolder of a folder is an event
    with the subfolder's name.

    A preview then compares posts of the last 24 hours with it: at most 20,000 posts and 5 seconds,
    or 5,000 posts and 2 seconds without a terminal. --no-preview and --json skip the preview. If an
    event has several seeds and no profile, a profile made from all of them is offered.
    """
    if bool(files) == (url is not None):
        raise click.UsageError("give files, or --url with one address")
    if intranet and url is None:
        raise click.UsageError("--intranet is for --url")
    if url is None:
        drafts = read_seed_files(files)
    else:
        require_yes(mode.yes, "--url")
        limits = RequestLimits(allow=PrivateFirst()) if intranet else PUBLIC_PAGES
        drafts = [fetch_draft(url, limits)]
    if len(drafts) > 1 and (changes.name is not None or changes.title is not None):
        raise click.UsageError("--id and --title are for one article")
    fields = changes.fields
    drafts = [
        replace(
            draft, id=draft.id if changes.name is None else changes.name,
            record=draft.record | fields,
        ) for draft in drafts
    ]  # fmt: skip
    contents = [parse_seed(draft, config) for draft in drafts]
    if not mode.force:
        require_articles(drafts, config.model.name)
    if url is not None and not mode.yes and not _confirm_article(contents[0]):
        return
    from newsift.cli.seed_publication import PublishOptions, publish_drafts

    with_preview = not mode.as_json if mode.preview is None else mode.preview
    options = PublishOptions(with_preview, mode.as_json, ask=not (mode.yes or mode.as_json))
    with seed_topic(config, make=True) as topic:
        publish_drafts(topic, config, drafts, contents, options)


def _confirm_article(seed: Seed) -> bool:
    click.echo(f"id      {one_line(seed.id)}", err=True)
    click.echo(f"title   {one_line(seed.title) or '-'}", err=True)
    click.echo(f"length  {plural(len(seed.text.split()), 'word')}", err=True)
    click.echo(f"lead    {shorten(one_line(seed.text), MAX_LEAD_CHARS)}\n", err=True)
    return confirm_publish(False, "Publish this article as a seed?")


@dataclass(frozen=True, slots=True)
class SeedEdits:
    threshold: str | None
    event: str | None
    title: str | None
    url: str | None
    expires_at: str | None
    paused: bool | None

    @property
    def fields(self) -> dict[str, Any]:
        """Of the record; None removes one."""
        texts = {"event": self.event, "title": self.title, "url": self.url}
        fields: dict[str, Any] = {key: value for key, value in texts.items() if value is not None}
        if (threshold := self.threshold) is not None:
            try:
                fields["threshold"] = None if threshold == AUTO else float(threshold)
            except ValueError:
                problem = f"--threshold {threshold!r}: give a score above 0, at most 1, or auto"
                raise InputError(problem) from None
        if (ends := self.expires_at) is not None:
            fields["expires_at"] = None if ends == NEVER else rfc3339(parse_until(ends))
        if self.paused is not None:
            fields["paused"] = self.paused or None
        return fields


@seeds.command("set")
@click.argument("name", metavar="ID")
@option_group(
    "edits",
    SeedEdits,
    click.option("--threshold", metavar="SCORE", help="The lowest score that matches, or 'auto'."),
    click.option("--event", help="The event it is about."),
    click.option("--title", help="The title; this changes the seed's version."),
    click.option("--url", help="The article's address."),
    click.option("--expires-at", metavar="TIME",
                 help="When the seed expires: 7d, a time in RFC 3339, or 'never'."),
    click.option("--paused/--resumed", default=None, help="Pause the seed, or resume it."),
)  # fmt: skip
@JSON
@kafka_options
def change(name: str, edits: SeedEdits, as_json: bool, config: Config) -> None:
    """Change a seed: publish its latest record again with these changes."""
    changes = edits.fields
    if not changes:
        raise click.UsageError("nothing to change; see newsift seeds set --help")
    with seed_topic(config) as topic:
        state = topic.state()
        seed = change_seeds(topic, state, [name], changes, config)[0]
    if as_json:
        print_json([seed_fields(seed) | {"published": "changed"}])
    else:
        click.echo(publication_text(seed, "changed", config))
    notify_version(state)


def follow_options(
    event: str | None, keep: str, every: str, most: int, once: bool, dry: bool
) -> FollowOptions:
    parse_event({"event": event})
    keep_ms = round(parse_seconds(keep, "--keep") * 1000)
    return FollowOptions(event, keep_ms, most, parse_seconds(every, "--every"), once or dry, dry)


@seeds.command()
@click.argument("names", nargs=-1, required=True, metavar="ID…")
@kafka_options
def remove(names: tuple[str, ...], config: Config) -> None:
    """Delete seeds. If one of the ids is unknown, none is deleted."""
    with seed_topic(config) as topic:
        state = topic.state()
        topic.publish(dict.fromkeys(find_key(state, name) for name in names), state)
    for name in names:
        click.echo(f"{one_line(name)}  removed")
    notify_version(state)


@seeds.command()
@click.argument("feed", metavar="FEED")
@option_group(
    "options",
    follow_options,
    click.option("--event", help="The event of the articles; by default each article is one."),
    click.option("--keep", default="14d", metavar="SPAN", show_default=True,
                 help="How long after its publication an article is a seed."),
    click.option("--every", default="15m", metavar="SPAN", show_default=True,
                 help="How often to fetch the feed, unless it asks for a longer interval."),
    click.option("--most", default=20, type=click.IntRange(1), metavar="N", show_default=True,
                 help="Articles read in one round; the others wait for the next."),
    click.option("--once", is_flag=True, help="Fetch once and stop, for cron."),
    click.option("--dry-run", "dry", is_flag=True, help="Fetch once; publish and store nothing."),
)  # fmt: skip
@click.option("--intranet", is_flag=True,
              help="Allow FEED on a host of your own network; no other host there is asked.",
)  # fmt: skip
@click.option("--state", metavar="FILE", type=PATH,
              help="The file of the feed's state; by default one in the state folder.",
)  # fmt: skip
@kafka_options
def follow(
    feed: str, options: FollowOptions, intranet: bool, state: Path | None, config: Config
) -> None:
    """Publish the articles of FEED (RSS or Atom), and new ones as they appear.

    Each article is read as by `seeds add --url`. Requests obey robots.txt with its Crawl-delay,
    Retry-After, and the feed's own interval. A corrected article replaces the text of its seed.
    """
    address = parse_web_address(feed)
    web = PoliteWeb(PUBLIC_FEEDS, URL(address.geturl()) if intranet else None)
    file = state or default_feed_state(feed, config)
    with suppress(Terminated), nullcontext() if options.dry else lock_state(file):
        last_state = read_feed_state(feed, file)
        notify(f"following {feed}; its state is in {file}")
        Follower(web, last_state, options, config, file, click.echo).run()


@seeds.command()
@click.argument("file", default=DASH, metavar="[FILE]", type=PATH)
@kafka_options
def export(file: Path, config: Config) -> None:
    """Write the latest record of every seed to FILE, or to standard output, as JSON lines.

    A FILE whose name ends in .json gets one array. Refused seeds are included. Keys and values are
    exact: text as it is, other bytes in base64.
    """
    check_targets({"FILE": file}, [])
    check_ending("FILE", file, ENDINGS)
    with seed_topic(config) as topic:
        state = topic.state()
    write_records(file, state.records.values())
    notify(f"{plural(len(state.records), 'seed')} exported")


@seeds.command("import")
@click.argument("file", metavar="FILE", type=PATH)
@kafka_options
def import_seeds(file: Path, config: Config) -> None:
    """Publish the records of an exported FILE, or of standard input, and read them back.

    Nothing is published unless every line can be read, nor if a record that workers refuse would
    replace a valid seed. Seeds that are not in FILE stay.
    """
    records = read_records(file)
    without_key = records.pop(b"", None)
    state = parse_control_state(records, config.limits)
    refusals = list(state.refused.values())
    with seed_topic(config, make=True) as topic:
        before = topic.state()
        valid = before.seeds.keys() | {PROFILE_PREFIX + event for event in before.profiles}
        if harmful := next((seed for seed in refusals if seed.id in valid), None):
            raise InputError(
                f"{file}: {harmful.id}: {harmful.reason}; it would replace a valid seed, so "
                "nothing is imported; correct the record, or remove that seed first"
            )
        topic.publish(records, before)
        notify(f"{plural(len(records), 'seed')} imported")
    notify_version(before)
    if without_key is not None:
        notify("a record without a key is left out: a compacted topic takes none")
    for seed in refusals[:MAX_REPORTED_SEEDS]:
        notify(f"refused, as in every worker: {seed.id}: {seed.reason}")
    if len(refusals) > MAX_REPORTED_SEEDS:
        notify(f"{len(refusals) - MAX_REPORTED_SEEDS} more are refused; see newsift seeds list")
