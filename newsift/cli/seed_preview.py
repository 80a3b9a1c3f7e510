"""What `newsift seeds add` says: what it did, what would match, what is missing, and an offer."""

from collections.abc import Mapping
from shutil import get_terminal_size

import click

from newsift.cli.events import learn_once
from newsift.cli.output import WIDEST, print_json
from newsift.cli.seeds import print_publication
from newsift.cli.terminal import at_terminal
from newsift.operations.messages import notify, notify_version
from newsift.operations.model_context import ModelContext
from newsift.operations.profile_training import LearnOptions, ProfileTraining
from newsift.operations.seed_drafts import KEYS
from newsift.operations.seed_publication import (
    AT_TERMINAL,
    HOURS,
    IN_A_SCRIPT,
    EventPreview,
    EventSeeds,
    Preview,
    PreviewLimits,
    Publication,
)
from newsift.operations.seed_topic import SeedTopic
from worker.config import Config
from worker.text import cut, escaped, one_line

MOST_EVENTS = 5  # events
MARGIN = 17  # characters of a line that are no post


def preview_limits() -> PreviewLimits:
    """How much may be read before whoever waits is told."""
    return AT_TERMINAL if at_terminal() else IN_A_SCRIPT


def report_publication(publication: Publication, config: Config, as_json: bool) -> None:
    """Say what was published, and what would have matched; with `as_json` for programs."""
    for draft, seed in publication.pairs:
        if not as_json:
            print_publication(seed, publication.status(draft), config, publication.auto)
        if draft.ignored:
            named = ", ".join(draft.ignored)
            notify(f"{draft.source}: ignored: {named}; a seed has {', '.join(KEYS)}")
    preview = publication.preview_published(preview_limits())
    if as_json:
        print_json([publication.row(draft, seed, preview) for draft, seed in publication.pairs])
        notify_version(publication.before)
        return
    if preview:
        report_preview(preview, publication.events, config.topics.posts)
    advise(publication.events)
    notify_version(publication.before)


def report_preview(preview: Preview, events: Mapping[str, EventSeeds], topic: str) -> None:
    """Say of each event what it would have matched, and show its best posts."""
    if not preview.posts:
        notify(f"{topic} holds no post of the last {HOURS} hours to try the seeds on")
        return
    width = get_terminal_size((WIDEST, 24)).columns - MARGIN
    for name, event_seeds in list(events.items())[:MOST_EVENTS]:
        matches = preview.events.get(name, EventPreview())
        alone = f", {_count(matches.gained)} only by what was added" if event_seeds.others else ""
        end = f"{alone}:" if matches.matched else ""
        notify(
            f"event {name!r}: {_count(matches.matched)} of {_among(preview)} of the last {HOURS} "
            f"hours would have matched{end}"
        )
        for score, text in matches.shown:
            notify(f"  {score:.2f}  {cut(one_line(text), width)}")
    if len(events) > MOST_EVENTS:
        notify(f"{len(events) - MOST_EVENTS} more events; --json --preview tells of all")


def advise(events: Mapping[str, EventSeeds]) -> None:
    """Say which events have few articles, as that is what costs most matches."""
    few = [name for name, each in events.items() if each.is_thin]
    if not few:
        return
    named = ", ".join(map(repr, few[:MOST_EVENTS])) + (
        f" and {len(few) - MOST_EVENTS} more" * (len(few) > MOST_EVENTS)
    )
    one = len(few) == 1
    notify(
        f"event{'' if one else 's'} {named} {'has' if one else 'have'} fewer than three articles: "
        f"with three an event found twice as many of its posts (10 of 11, not 5); add more with "
        f"--event {repr(few[0]) if one else 'NAME'}"
    )


def offer_to_learn(
    topic: SeedTopic, config: Config, events: Mapping[str, EventSeeds], ask: bool
) -> None:
    """Say, or ask at a terminal, whether events with several seeds shall get a profile of them."""
    for event, each in events.items():
        if not each.may_learn:
            continue
        command = f"newsift events learn {event!r} --background"
        reason = f"event {event!r} has {each.seeds} seeds: one profile of them all tells more"
        if not (ask and at_terminal()):
            notify(f"{reason}; {command} makes it")
        elif click.confirm(escaped(f"{reason}; make it now?"), err=True):
            _learn(topic, config, event)


def _learn(topic: SeedTopic, config: Config, event: str) -> None:
    options = LearnOptions(event, span=None, labels=False)
    training = ProfileTraining(topic.cluster, ModelContext(config), options)
    learn_once(training, yes=False, as_json=False)


def _count(posts: int) -> str:
    return f"{posts:,}" if posts else "none"


def _among(preview: Preview) -> str:
    if preview.is_whole:
        return f"{preview.posts:,} posts"
    return f"a sample of {preview.posts:,} of {preview.there:,} posts"
