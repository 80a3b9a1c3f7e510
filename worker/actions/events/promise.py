"""A promise of an event's threshold: what the labels show of it, what is missing, setting it."""

import time
from typing import Any

from encoder.errors import InputError
from worker.actions.events.event import KnownEvent, the_event
from worker.actions.events.labelled import labels_of
from worker.actions.events.learning import read_events
from worker.actions.events.lesson import made_now
from worker.actions.events.promising import (
    PassRates,
    Shown,
    Wish,
    lapsed,
    promised_profile,
    shown_by,
)
from worker.actions.events.teacher import Teacher
from worker.actions.labels.candidates import matches_of
from worker.actions.seeds.topic import SeedTopic
from worker.actions.told import say
from worker.config import Config
from worker.kafka.reading import TopicReader
from worker.seeds.profile import Profile
from worker.visible import one_line


def promisable(event: KnownEvent) -> Profile:
    """The profile of an event, which has to be in force to promise something."""
    if event.profile is None or event.why:
        raise InputError(
            f"event {event.name!r}: its profile is {event.state} ({event.why}); "
            f"`newsift events learn` makes another"
        )
    return event.profile


def promise_shown(
    cluster: TopicReader, config: Config, profile: Profile, wish: Wish, start: int
) -> Shown:
    """What the labels of a profile's matches since then show."""
    found = matches_of(cluster, config, profile.event, start)
    return shown_by(labels_of(cluster, config, profile.event), found, profile, wish)


def set_promise(
    topic: SeedTopic, teacher: Teacher, profile: Profile, wish: Wish, shown: Shown
) -> None:
    """Publish the threshold that was shown, and say whether what was set is in force, and holds."""
    made = promised_profile(teacher, profile, wish, shown, made_now())
    topic.publish({profile.id.encode(): made.value(teacher.config.limits)})
    event = the_event(read_events(topic, teacher)[0], profile.event)
    if event.profile is None:
        return
    rate = PassRates(topic.cluster, teacher, int(time.time() * 1000)).of(event.profile)
    why = lapsed(event, rate)
    say(f"lapsed at once: {why}" if why else "set; newsift events list says when it lapses")


def missing(profile: Profile, shown: Shown) -> str:
    """What is missing where nothing can be promised yet."""
    if not shown.matches:
        return (
            "no post has matched this version of the profile yet; wait, or --since an earlier time"
        )
    if shown.more:
        name = one_line(profile.event)
        return f"{shown.missing} labels are missing, if none is wrong: newsift labels ask {name}"
    return (
        "these matches can show no more: their best are not as often right, or are too few; wait "
        "for more, or let the profile learn"
    )


def promise_row(name: str, wish: Wish, shown: Shown, set_it: bool) -> dict[str, Any]:
    """What was shown, as a row of JSON."""
    return {
        "event": name,
        "precision": wish.precision,
        "confidence": wish.confidence,
        "tested_at": wish.tested,
        "version": wish.version,
        "threshold": shown.threshold,
        "missing": shown.missing if shown.more else None,
        "labels": shown.labels,
        "on": shown.on,
        "matches": shown.matches,
        "set": set_it,
    }
