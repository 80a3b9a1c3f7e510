"""What is offered once an event has several seeds: one profile of them."""

import click

from worker.actions.seeds.known_events import Known
from worker.actions.seeds.topic import SeedTopic
from worker.cli.seeds.from_url import at_terminal
from worker.cli.terminal import say
from worker.config import Config
from worker.visible import escaped


def offer_to_learn(topic: SeedTopic, config: Config, events: Known, ask: bool) -> None:
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
    from worker.actions.events.learning import Learning, School
    from worker.actions.events.teacher import Teacher
    from worker.cli.events.learn import learn_once

    school = School(topic.cluster, Teacher(config), Learning(event, span=None, labels=False))
    learn_once(school, yes=False, as_json=False)
