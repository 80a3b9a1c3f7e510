"""What `newsift seeds add` says: what it did, what would match, what is missing, and an offer."""

from collections.abc import Mapping
from shutil import get_terminal_size

import click

from newsift.cli.events import learn_once
from newsift.cli.output import WIDEST, print_json
from newsift.cli.seeds import print_told
from newsift.cli.terminal import at_terminal, say, say_version
from newsift.operations.model_context import Teacher
from newsift.operations.profile_training import Learning, ProfileTraining
from newsift.operations.seed_drafts import KEYS
from newsift.operations.seed_publication import (
    AT_TERMINAL,
    HOURS,
    IN_A_SCRIPT,
    EventSeeds,
    EventSeen,
    Haste,
    Publication,
    Seen,
)
from newsift.operations.seed_topic import SeedTopic
from worker.config import Config
from worker.text import cut, escaped, one_line

TOLD = 5  # events
MARGIN = 17  # characters of a line that are no post


def haste() -> Haste:
    """How much may be read before whoever waits is told."""
    return AT_TERMINAL if at_terminal() else IN_A_SCRIPT


def tell_published(made: Publication, config: Config, as_json: bool) -> None:
    """Say what was published, and what would have matched; with `as_json` for programs."""
    for draft, seed in made.pairs:
        if not as_json:
            print_told(seed, made.said(draft), config, made.auto)
        if draft.ignored:
            named = ", ".join(draft.ignored)
            say(f"{draft.source}: ignored: {named}; a seed has {', '.join(KEYS)}")
    seen = made.tried(haste())
    if as_json:
        print_json([made.row(draft, seed, seen) for draft, seed in made.pairs])
        say_version(made.before)
        return
    if seen:
        tell(seen, made.events, config.topics.posts)
    advise(made.events)
    say_version(made.before)


def tell(seen: Seen, events: Mapping[str, EventSeeds], topic: str) -> None:
    """Say of each event what it would have matched, and show its best posts."""
    if not seen.posts:
        say(f"{topic} holds no post of the last {HOURS} hours to try the seeds on")
        return
    width = get_terminal_size((WIDEST, 24)).columns - MARGIN
    for name, known in list(events.items())[:TOLD]:
        found = seen.events.get(name, EventSeen())
        alone = f", {_count(found.gained)} only by what was added" if known.others else ""
        end = f"{alone}:" if found.matched else ""
        say(
            f"event {name!r}: {_count(found.matched)} of {_among(seen)} of the last {HOURS} hours "
            f"would have matched{end}"
        )
        for score, text in found.shown:
            say(f"  {score:.2f}  {cut(one_line(text), width)}")
    if len(events) > TOLD:
        say(f"{len(events) - TOLD} more events; --json --preview tells of all")


def advise(events: Mapping[str, EventSeeds]) -> None:
    """Say which events have few articles, as that is what costs most matches."""
    few = [name for name, known in events.items() if known.is_thin]
    if not few:
        return
    named = ", ".join(map(repr, few[:TOLD])) + (f" and {len(few) - TOLD} more" * (len(few) > TOLD))
    one = len(few) == 1
    say(
        f"event{'' if one else 's'} {named} {'has' if one else 'have'} fewer than three articles: "
        f"with three an event found twice as many of its posts (10 of 11, not 5); add more with "
        f"--event {repr(few[0]) if one else 'NAME'}"
    )


def offer_to_learn(
    topic: SeedTopic, config: Config, events: Mapping[str, EventSeeds], ask: bool
) -> None:
    """Say, or ask at a terminal, whether events with several seeds shall get a profile of them."""
    for event, known in events.items():
        if not known.may_learn:
            continue
        command = f"newsift events learn {event!r} --background"
        told = f"event {event!r} has {known.seeds} seeds: one profile of them all tells more"
        if not (ask and at_terminal()):
            say(f"{told}; {command} makes it")
        elif click.confirm(escaped(f"{told}; make it now?"), err=True):
            _learn(topic, config, event)


def _learn(topic: SeedTopic, config: Config, event: str) -> None:
    learning = Learning(event, span=None, labels=False)
    training = ProfileTraining(topic.cluster, Teacher(config), learning)
    learn_once(training, yes=False, as_json=False)


def _count(posts: int) -> str:
    return f"{posts:,}" if posts else "none"


def _among(seen: Seen) -> str:
    if seen.is_whole:
        return f"{seen.posts:,} posts"
    return f"a sample of {seen.posts:,} of {seen.there:,} posts"
