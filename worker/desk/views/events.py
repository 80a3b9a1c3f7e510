"""The events as their page lists them: what is in force, what matched lately, and what is wrong."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from worker.actions.events.event import KnownEvent
from worker.actions.events.promising import ENOUGH, lapsed
from worker.desk.desk import Desk
from worker.desk.judging.profiles import profile_in
from worker.desk.server.api import reads
from worker.desk.stories import Tally
from worker.posts.times import rfc3339
from worker.seeds.record import PREFIX
from worker.visible import cut

MOST = 50  # events at once
LONGEST = 200  # characters of a reason
MOST_REFUSED = 10  # that are named
IN_FORCE = ("live", "replaced")  # states of seeds that match, themselves or by a profile
STATES = ("paused", "expired", "refused")  # of events without one, the first that any seed has

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
    tallies, drift = desk.board.events(), desk.health.drift()
    sought = asked.text.casefold()
    names = sorted(name for name in {*by_event, *tallies} if sought in name.casefold())
    shown = names[asked.skip : asked.skip + MOST]
    return {
        "events": [
            event_row(desk, name, by_event.get(name, ()), tallies.get(name), drift.get(name))
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


def event_row(
    desk: Desk, name: str, rows: Sequence[Json], tally: Tally | None, drift: str | None
) -> Json:
    """One event, for the page."""
    profiles = [row for row in rows if row["id"].startswith(PREFIX)]
    seeds = [row for row in rows if not row["id"].startswith(PREFIX)]
    states = Counter(row["state"] for row in seeds)
    serving = [row for row in profiles if row["state"] == "live"] or [
        row for row in seeds if row["state"] in IN_FORCE
    ]
    told = tally or desk.board.tally(name)
    return {
        "event": name,
        "state": state_of(states),
        "seeds": dict(states),
        "thresholds": thresholds_of(serving),
        "profile": profile_row(profiles),
        "promise": promise_row(desk, name, profiles, told),
        "posts": told.posts,
        "stories": told.stories,
        "number": told.number,
        "last": rfc3339(told.last) if told.number else None,
        "drift": drift,
    }


def state_of(states: Mapping[str, int]) -> str:
    """The state of an event by those of its seeds."""
    if any(states.get(each) for each in IN_FORCE):
        return "live"
    return next((each for each in STATES if states.get(each)), "none")


def thresholds_of(serving: Sequence[Json]) -> list[float]:
    """The thresholds of what is in force, rising; automatic ones are known with the model alone."""
    known = (row.get("cut") or row.get("threshold") for row in serving)
    return sorted({each for each in known if each is not None})


def profile_row(profiles: Sequence[Json]) -> Json | None:
    """Whether the event's profile is in force, and why not."""
    for row in profiles:
        state = "in force" if row["state"] == "live" else row["state"]
        return {"state": state, "why": cut(str(row.get("reason") or ""), LONGEST)}
    return None


def promise_row(desk: Desk, name: str, profiles: Sequence[Json], told: Tally) -> Json | None:
    """What was promised of the event's threshold, and why that holds no longer, if so."""
    profile = profile_in(desk.known.control.values, name, desk.config.limits) if profiles else None
    if profile is None or not profile.promise:
        return None
    row = profile_row(profiles)
    assert row is not None
    known = KnownEvent(name, profile=profile, state=row["state"])
    posts = desk.outside.stream().last_hour
    why = lapsed(known, told.last_hour / posts if posts >= ENOUGH else None)
    numbers = {key: profile.promise.get(key) for key in ("precision", "confidence", "labels")}
    return {key: value for key, value in numbers.items() if isinstance(value, (int, float))} | {
        "lapsed": why
    }


ENDPOINTS = (events,)
