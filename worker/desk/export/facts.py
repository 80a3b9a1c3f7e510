"""What the topics know of how an event's matches came about, for a methods paragraph."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from worker.actions.events.event import Values
from worker.actions.standing import reading
from worker.config import Config, MatchingConfig
from worker.desk.export.asked import Asked
from worker.desk.export.tally import Tally
from worker.judge.labels import Label
from worker.kafka.reading import TopicReader
from worker.seeds.profile import Profile, read_record
from worker.seeds.record import PREFIX, Seed


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known; None where it is not."""

    asked: Asked
    tally: Tally
    seeds: tuple[Seed, ...]  # of the event as the control topic has it now, paused ones too
    profile: Profile | None
    messages: int | None  # that the workers read in that time
    labels: tuple[Label, ...]
    matching: MatchingConfig  # of the desk; the workers had it if their sets of seeds are its own
    seed_set: str | None  # that the configuration of the desk makes of the control topic now
    version: str  # of the desk


def facts_of(
    cluster: TopicReader, admin: Any, config: Config, asked: Asked, tally: Tally,
    values: Values, labels: Sequence[Label], seed_set: str | None,
) -> Facts:  # fmt: skip
    """What the topics say now; `values` are those of the control topic."""
    seeds, profile = _of_control(values, config, asked.event)
    messages = _messages(cluster, admin, config, asked)
    known = tuple(labels), config.matching, seed_set, version("newsift")
    return Facts(asked, tally, seeds, profile, messages, *known)


def _of_control(
    values: Values, config: Config, event: str
) -> tuple[tuple[Seed, ...], Profile | None]:
    """The seeds of an event, and its profile."""
    rows = sorted(values.items(), key=lambda pair: pair[0] or b"")
    found = [read_record(key, value, config.limits) for key, value in rows]
    seeds = tuple(each for each in found if isinstance(each, Seed) and each.event == event)
    of_event = (each for each in found if isinstance(each, Profile))
    return seeds, next((each for each in of_event if each.id == PREFIX + event), None)


def _messages(cluster: TopicReader, admin: Any, config: Config, asked: Asked) -> int | None:
    """How many messages the workers read in that time; None where some are deleted by now."""
    topic = config.topics.posts
    if not cluster.exists(topic):
        return None
    start, end = asked.span(cluster, topic)
    posts = reading(cluster, admin, config).posts
    if any(start[part] <= backlog.first and backlog.first for part, backlog in posts.items()):
        return None
    return sum(
        max(min(end[part], backlog.done) - start[part], 0) for part, backlog in posts.items()
    )
