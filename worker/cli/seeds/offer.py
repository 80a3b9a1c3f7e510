"""What is offered once an event has several seeds: one profile of them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from worker.actions.events.event import Values
from worker.actions.seeds.topic import SeedTopic
from worker.cli.seeds.from_url import at_terminal
from worker.cli.terminal import say
from worker.config import Config
from worker.seeds.profile import Profile, read_record
from worker.seeds.record import PREFIX, RefusedSeed, Seed
from worker.visible import escaped

ENOUGH = 2  # seeds: the mean of one is no better than itself


@dataclass(slots=True)
class EventSeeds:
    """How many seeds an event has, and whether somebody made a profile of them."""

    seeds: int = 0
    others: int = 0  # than those that were added now
    has_profile: bool = False


Known = Mapping[str, EventSeeds]


def offer_to_learn(topic: SeedTopic, config: Config, events: Known, ask: bool) -> None:
    """Say, or ask at a terminal, whether events with several seeds shall get a profile of them."""
    for event, known in events.items():
        if known.seeds < ENOUGH or known.has_profile:
            continue
        command = f"newsift events learn {event!r} --background"
        told = f"event {event!r} has {known.seeds} seeds: one profile of them all tells more"
        if not (ask and at_terminal()):
            say(f"{told}; {command} makes it")
        elif click.confirm(escaped(f"{told}; make it now?"), err=True):
            _learn(topic, config, event)


def known_events(values: Values, config: Config, added: Sequence[Seed]) -> Known:
    """What there is of the events that these seeds are about, by name."""
    found: dict[str, EventSeeds] = defaultdict(EventSeeds)
    ids = {seed.id for seed in added}
    for key, value in values.items():
        each = read_record(key, value, config.limits)
        if isinstance(each, Seed) and not each.paused:
            found[each.event].seeds += 1
            found[each.event].others += each.id not in ids
        elif isinstance(each, Profile | RefusedSeed) and each.id.startswith(PREFIX):
            found[each.id.removeprefix(PREFIX)].has_profile = True
    return {name: found[name] for name in sorted({seed.event for seed in added})}


def _learn(topic: SeedTopic, config: Config, event: str) -> None:
    from worker.actions.events.teacher import Teacher
    from worker.cli.events.learning import Learning, School

    school = School(topic.cluster, Teacher(config), Learning(event, span=None, labels=False))
    school.once(yes=False, as_json=False)
