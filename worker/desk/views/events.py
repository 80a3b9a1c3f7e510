"""The events as their page lists them: what is in force, what matched lately, and what is wrong."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from worker.actions.events.event import KnownEvent
from worker.actions.events.promising import lapsed
from worker.desk.desk import Desk
from worker.desk.judging.profiles import profile_in
from worker.desk.server.api import reads
from worker.judge.passing import an_hour, window_words
from worker.posts.times import rfc3339
from worker.seeds.record import PREFIX
from worker.visible import cut
from worker.watch.metrics import label_of

MOST = 50  # events at once
LONGEST = 200  # characters of a reason
MOST_REFUSED = 10  # that are named
STATES = ("live", "paused", "expired", "refused")  # of an event, the first that any record has

Json = dict[str, Any]


class EventsWanted(Struct, frozen=True):
    """Which events: those with these letters in their names."""

    text: Annotated[str, Meta(max_length=100)] = ""
    skip: Annotated[int, Meta(ge=0, le=10**7)] = 0


@reads("/api/events", EventsWanted)
def events(desk: Desk, asked: EventsWanted) -> Json:
    """The events by name, fifty at a time, and the seeds that are refused."""
    desk.health.look()
    by_event = defaultdict[str, list[Json]](list)
    refused = []
    for row in desk.rows.now(desk.known.control):
        if row["state"] == "refused":
            refused.append({"id": cut(row["id"], LONGEST), "reason": cut(row["reason"], LONGEST)})
            if not row.get("event") and not row["id"].startswith(PREFIX):
                continue  # of which event it was meant to be nobody knows
        by_event[row.get("event") or row["id"].removeprefix(PREFIX)].append(row)
    drift, bursts = desk.health.drift(), desk.health.bursts()
    sought = asked.text.casefold()
    names = sorted(name for name in {*by_event, *desk.board.events()} if sought in name.casefold())
    shown = names[asked.skip : asked.skip + MOST]
    return {
        "events": [
            event_row(desk, name, by_event.get(name, ()))
            | {"drift": drift.get(label_of(name)), "bursts": bursts[label_of(name)]}
            for name in shown
        ],
        "total": len(names),
        "refused": refused[:MOST_REFUSED],
        "more_refused": max(len(refused) - MOST_REFUSED, 0),
        "since": rfc3339(desk.board.since),
        "ready": desk.known.of_seeds.ready.is_set() and desk.of_matches.ready.is_set(),
        "away": desk.known.of_seeds.away or desk.of_matches.away,
        "model": desk.model.away,
    }


def event_row(desk: Desk, name: str, rows: Sequence[Json]) -> Json:
    """One event, for the page, by the records of its seeds and its profile."""
    profiles = [row for row in rows if row["id"].startswith(PREFIX)]
    seeds = [row for row in rows if not row["id"].startswith(PREFIX)]
    told = desk.board.tally(name)
    return {
        "event": name,
        "state": next((each for each in STATES if any(r["state"] == each for r in rows)), "none"),
        "seeds": Counter(row["state"] for row in seeds),
        "thresholds": thresholds_of(row for row in rows if row["state"] == "live"),
        "profile": profile_row(profiles),
        "promise": promise_row(desk, name, profiles),
        "posts": told.posts,
        "stories": told.stories,
        "hourly": hourly_row(desk, sum(told.posts)),
        "number": told.number,
        "last": rfc3339(told.last) if told.number else None,
    }


def hourly_row(desk: Desk, posts: int) -> Json | None:
    """So many matches an hour, and of which time; None where too little has passed."""
    now = int(time.time() * 1000)
    since = max(desk.board.since, desk.outside.stream().since)
    rate = an_hour(posts, since, now)
    return None if rate is None else {"rate": rate, "window": window_words(since, now)}


def thresholds_of(serving: Iterable[Json]) -> list[float]:
    """The thresholds of what is in force, rising; automatic ones are known with the model alone."""
    known = (row.get("cut") or row.get("threshold") for row in serving)
    return sorted({each for each in known if each is not None})


def profile_row(profiles: Sequence[Json]) -> Json | None:
    """Whether the event's profile is in force, and why not."""
    for row in profiles:
        state = "in force" if row["state"] == "live" else row["state"]
        return {"state": state, "why": cut(str(row.get("reason") or ""), LONGEST)}
    return None


def promise_row(desk: Desk, name: str, profiles: Sequence[Json]) -> Json | None:
    """What was promised of the event's threshold, and why that holds no longer, if so."""
    profile = profile_in(desk.known.control.values, name, desk.config.limits) if profiles else None
    if profile is None or not profile.promise:
        return None
    row = profile_row(profiles)
    assert row is not None
    known = KnownEvent(name, profile=profile, state=row["state"])
    why = lapsed(known, desk.pass_rate(profile))
    numbers = {key: profile.promise.get(key) for key in ("precision", "confidence", "labels")}
    return {key: value for key, value in numbers.items() if isinstance(value, (int, float))} | {
        "lapsed": why
    }


ENDPOINTS = (events,)
