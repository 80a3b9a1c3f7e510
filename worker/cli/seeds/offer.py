"""What is offered once an event has several seeds: one profile of them."""

from collections import Counter
from collections.abc import Iterable

import click

from worker.cli.seeds.from_url import at_terminal
from worker.cli.seeds.topic import SeedTopic
from worker.cli.terminal import say
from worker.config import Config
from worker.seeds.profile import Profile, read_record
from worker.seeds.record import PREFIX, RefusedSeed, Seed
from worker.visible import escaped

ENOUGH = 2  # seeds: the mean of one is no better than itself


def offer_to_learn(topic: SeedTopic, config: Config, added: Iterable[Seed], ask: bool) -> None:
    """Say, or ask at a terminal, whether events with several seeds shall get a profile of them."""
    for event, count in without_profile(topic, config, {seed.event for seed in added}).items():
        command = f"newsift events learn {event!r} --background"
        told = f"event {event!r} has {count} seeds: one profile of them all tells more"
        if not (ask and at_terminal()):
            say(f"{told}; {command} makes it")
        elif click.confirm(escaped(f"{told}; make it now?"), err=True):
            _learn(topic, config, event)


def without_profile(topic: SeedTopic, config: Config, events: set[str]) -> dict[str, int]:
    """Which of these events have several seeds and no profile, and how many."""
    seeds, known = Counter[str](), set[str]()
    for key, record in topic.latest().items():
        found = read_record(key, record.value, config.limits)
        if isinstance(found, Profile | RefusedSeed):
            known.add(found.id)
        elif isinstance(found, Seed) and not found.paused:
            seeds[found.event] += 1
    return {
        event: seeds[event] for event in sorted(events)
        if seeds[event] >= ENOUGH and PREFIX + event not in known
    }  # fmt: skip


def _learn(topic: SeedTopic, config: Config, event: str) -> None:
    from worker.cli.events.learning import Learning, School
    from worker.cli.events.teacher import Teacher

    school = School(topic.cluster, Teacher(config), Learning(event, span=None, labels=False))
    school.once(yes=False, as_json=False)
