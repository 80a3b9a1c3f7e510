"""What the events of new seeds would have matched in the last hours."""

from collections.abc import Sequence, Set
from typing import Any

from encoder.errors import NewsiftError
from worker.actions.events.event import Values
from worker.actions.events.teacher import Teacher
from worker.actions.seeds.look_back import HOURS, EventSeen, Haste, Seen, look_back
from worker.actions.seeds.topic import SeedTopic
from worker.actions.told import say
from worker.config import Config
from worker.seeds.profile import Profile, read_record
from worker.seeds.record import Seed


def tried(
    topic: SeedTopic, teacher: Teacher, values: Values, added: Sequence[Seed], haste: Haste
) -> Seen | None:
    """What the events of the seeds that were added would have matched.

    The seeds stand published: what comes in the way of this is said, and no matter.
    """
    try:
        events = {seed.event for seed in added}
        seeds = teacher.seed_set(_of_events(values, events, teacher.config))
        ids = {seed.id for seed in added}
        return look_back(topic.cluster, teacher, seeds, ids, haste)
    except NewsiftError as error:
        say(f"published; what would have matched is not told: {error}")
        return None


def as_row(seen: Seen, event: str) -> dict[str, Any]:
    """The same as JSON."""
    found = seen.events.get(event, EventSeen())
    best = [{"score": score, "text": text} for score, text in found.shown]
    counts = {"posts": seen.posts, "there": seen.there, "whole": seen.is_whole}
    counts |= {"matched": found.matched, "gained": found.gained}
    return {"hours": HOURS, **counts, "best": best}


def _of_events(values: Values, events: Set[str], config: Config) -> Values:
    """The records of these events."""
    kept: dict[bytes | None, bytes] = {}
    for key, value in values.items():
        found = read_record(key, value, config.limits)
        if isinstance(found, Seed | Profile) and found.event in events:
            kept[key] = value
    return kept
