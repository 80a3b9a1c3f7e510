"""Publication of seeds by `newsift seeds add`: what would match, what is missing, and an offer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shutil import get_terminal_size
from typing import Any

import click

from encoder.errors import NewsiftError
from newsift.cli.events import learn_once
from newsift.cli.output import PIPE_WIDTH, print_json
from newsift.cli.terminal import at_terminal
from newsift.operations.messages import notify, notify_version
from newsift.operations.model_context import (
    ModelContext,
    draft_thresholds,
    load_context,
)
from newsift.operations.profile_training import LearnOptions, ProfileTraining
from newsift.operations.seed_drafts import SEED_KEYS, SeedDraft, report_copies, require_room
from newsift.operations.seed_preview import (
    PREVIEW_HOURS,
    SCRIPT_LIMITS,
    TERMINAL_LIMITS,
    EventPreview,
    EventSeeds,
    Preview,
    count_event_seeds,
    draft_status,
    preview_row,
    preview_seeds,
)
from newsift.operations.seed_rows import AutoThresholds, publication_text, seed_fields
from newsift.operations.seed_topic import SeedTopic
from worker.config import Config
from worker.seeds.record import Seed
from worker.seeds.state import ControlState
from worker.text import escape_invisible, one_line, plural, shorten

MAX_EVENTS = 5
INDENT_CHARS = 17  # of a line, before the post


@dataclass(frozen=True, slots=True)
class PublishOptions:
    """What is shown of published seeds, and whether the user is asked."""

    with_preview: bool
    as_json: bool
    ask: bool


def publish_drafts(
    topic: SeedTopic, config: Config, drafts: Sequence[SeedDraft], seeds: Sequence[Seed],
    options: PublishOptions,
) -> None:  # fmt: skip
    """`seeds` are the parsed drafts. Offers to learn."""
    as_json = options.as_json
    before = topic.state()
    require_room(before, seeds, config)
    context = load_context(config) if options.with_preview else None
    if context:
        context.calibrate(before.with_contents(seeds))
    auto = draft_thresholds(context, drafts) if context else {}
    topic.publish({draft.key: draft.value for draft in drafts}, before)
    after = topic.state()
    events = count_event_seeds(after, seeds)
    statuses = [draft_status(draft, before) for draft in drafts]
    for draft, seed, status in zip(drafts, seeds, statuses, strict=True):
        if not as_json:
            click.echo(publication_text(seed, status, config, auto))
        if draft.ignored_keys:
            keys = ", ".join(draft.ignored_keys)
            notify(f"{draft.source}: ignored: {keys}; a seed has {', '.join(SEED_KEYS)}")
    report_copies(after, seeds)
    preview = _preview(topic, context, after, seeds) if context else None
    if as_json:
        rows = zip(seeds, statuses, strict=True)
        print_json([_row(seed, status, auto, preview) for seed, status in rows])
    else:
        if preview:
            _report_preview(preview, events, config.topics.posts)
        _report_few_articles(events)
    notify_version(before)
    _offer_to_learn(topic, config, events, options.ask)


def _preview(
    topic: SeedTopic, context: ModelContext, state: ControlState, seeds: Sequence[Seed]
) -> Preview | None:
    """None, with a message, if it fails: the seeds are published already."""
    limits = TERMINAL_LIMITS if at_terminal() else SCRIPT_LIMITS
    try:
        return preview_seeds(topic.cluster, context, state, seeds, limits)
    except NewsiftError as error:
        notify(f"published; what would have matched is not shown: {error}")
        return None


def _row(seed: Seed, status: str, auto: AutoThresholds, preview: Preview | None) -> dict[str, Any]:
    row = seed_fields(seed) | {"published": status}
    if seed.id in auto and seed.threshold is None:
        row["auto_threshold"] = auto[seed.id]
    return row | ({"preview": preview_row(preview, seed.event)} if preview else {})


def _report_preview(preview: Preview, events: Mapping[str, EventSeeds], topic: str) -> None:
    if not preview.posts:
        notify(f"{topic} holds no post of the last {PREVIEW_HOURS} hours to try the seeds on")
        return
    width = get_terminal_size((PIPE_WIDTH, 24)).columns - INDENT_CHARS
    among = plural(preview.posts, "post")
    if not preview.is_whole:
        among = f"a sample of {preview.posts:,} of {preview.there:,} posts"
    for name, counts in list(events.items())[:MAX_EVENTS]:
        matches = preview.events.get(name, EventPreview())
        alone = f", {_count(matches.gain)} only by what was added" if counts.others else ""
        end = f"{alone}:" if matches.matched else ""
        notify(
            f"event {name!r}: {_count(matches.matched)} of {among} of the last "
            f"{PREVIEW_HOURS} hours would have matched{end}"
        )
        for score, text in matches.best:
            notify(f"  {score:.2f}  {shorten(one_line(text), width)}")
    if len(events) > MAX_EVENTS:
        notify(f"{plural(len(events) - MAX_EVENTS, 'more event')}; --json --preview lists all")


def _count(posts: int) -> str:
    return f"{posts:,}" if posts else "none"


def _report_few_articles(events: Mapping[str, EventSeeds]) -> None:
    """Name the events with few articles, as that is what costs most matches."""
    few = [name for name, counts in events.items() if counts.has_few_seeds]
    if not few:
        return
    names = ", ".join(map(repr, few[:MAX_EVENTS]))
    if len(few) > MAX_EVENTS:
        names += f" and {len(few) - MAX_EVENTS} more"
    subject, name = f"event {names} has", repr(few[0])
    if len(few) > 1:
        subject, name = f"events {names} have", "NAME"
    notify(
        f"{subject} fewer than three articles: with three an event found 10 of its 11 posts, with "
        f"one 5; add more with --event {name}"
    )


def _offer_to_learn(
    topic: SeedTopic, config: Config, events: Mapping[str, EventSeeds], ask: bool
) -> None:
    """Offer a profile for events with several seeds; ask at a terminal, if at all."""
    for event, counts in events.items():
        if not counts.may_learn:
            continue
        reason = f"event {event!r} has {counts.seeds} seeds: one profile of them all tells more"
        if not (ask and at_terminal()):
            notify(f"{reason}; newsift events learn {event!r} --background makes it")
        elif click.confirm(escape_invisible(f"{reason}; make it now?"), err=True):
            options = LearnOptions(event, span=None, labels=False)
            training = ProfileTraining(topic.cluster, ModelContext(config), options)
            learn_once(training, yes=False, as_json=False)
