"""`newsift seeds add`: articles read, checked, published, and tried on the last day's posts."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from worker.actions.events.event import Values, values_of
from worker.actions.keyed import Latest
from worker.actions.seeds.files import KEYS, SeedDraft, read_seed_files, seed_of, undoubted
from worker.actions.seeds.rows import AutoThresholds, fields
from worker.actions.seeds.topic import SeedTopic, seed_topic
from worker.cli.options import JSON, kafka_options
from worker.cli.seeds.from_url import confirmed, draft_of_url
from worker.cli.seeds.offer import known_events, offer_to_learn
from worker.cli.seeds.show import print_told
from worker.cli.terminal import say
from worker.cli.view.table import print_json
from worker.cli.view.times import until
from worker.config import Config
from worker.posts.times import rfc3339
from worker.seeds.record import Seed

if TYPE_CHECKING:
    from worker.actions.events.teacher import Teacher
    from worker.actions.seeds.look_back import Seen


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
    drafts = read_seed_files(files) if url is None else [draft_of_url(url, yes, intranet)]
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
        publication.tell_json() if as_json else publication.tell()
        offer_to_learn(topic, config, publication.events, ask=not (yes or as_json))


class Publication:
    """Seeds on their way to the topic, and what is said of them."""

    def __init__(
        self, topic: SeedTopic, config: Config, drafts: Sequence[SeedDraft],
        seeds: Sequence[Seed], preview: bool,
    ) -> None:  # fmt: skip
        self._topic, self._config, self._drafts, self._seeds = topic, config, drafts, seeds
        self._before: Latest = topic.latest()
        self._values: Values = {}
        self._teacher: Teacher | None = None
        self._auto: AutoThresholds = {}
        if preview:
            self._look_at()

    def _look_at(self) -> None:
        from worker.actions.seeds.thresholds import read_by_model, teacher_of

        self._teacher = teacher_of(self._config)
        if self._teacher is not None:
            self._auto = read_by_model(self._teacher, self._drafts)

    def publish(self) -> None:
        """Publish all of them, and read the topic back."""
        self._topic.publish({draft.key: draft.value for draft in self._drafts})
        self._values = values_of(self._topic.latest())
        self.events = known_events(self._values, self._config, self._seeds)

    def tell(self) -> None:
        """Say what was published, and what would have matched."""
        from worker.cli.seeds.preview import advise, tell

        for draft, seed in zip(self._drafts, self._seeds, strict=True):
            print_told(seed, _said(self._before, draft), self._config, self._auto)
        self._tell_ignored()
        if seen := self._tried():
            tell(seen, self.events, self._config.topics.posts)
        advise(self.events)

    def tell_json(self) -> None:
        """The same for programs."""
        from worker.actions.seeds.preview import as_row

        seen = self._tried()
        for draft, seed in zip(self._drafts, self._seeds, strict=True):
            row: dict[str, Any] = fields(seed) | {"published": _said(self._before, draft)}
            if seed.id in self._auto and seed.threshold is None:
                row["auto_threshold"] = self._auto[seed.id]
            print_json([row | ({"preview": as_row(seen, seed.event)} if seen else {})])
        self._tell_ignored()

    def _tell_ignored(self) -> None:
        for draft in self._drafts:
            if draft.ignored:
                named = ", ".join(draft.ignored)
                say(f"{draft.source}: ignored: {named}; a seed has {', '.join(KEYS)}")

    def _tried(self) -> "Seen | None":
        from worker.actions.seeds.preview import tried
        from worker.cli.seeds.preview import haste

        if self._teacher is None:
            return None
        return tried(self._topic, self._teacher, self._values, self._seeds, haste())


def _said(before: Latest, draft: SeedDraft) -> str:
    record = before.get(draft.key)
    if record is None or record.value is None:
        return "new"
    return "unchanged" if record.value == draft.value else "replaced"
