"""The events, the matches of one, and what every page needs to know of the desk."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from importlib.metadata import version
from typing import Annotated, Any

from msgspec import Meta, Struct

from encoder.errors import InputError
from newsift.desk.api import LONGEST_NAME, EventName, Nothing, reads
from newsift.desk.board import ALL, ANY, LANGUAGE_CHARS, LONGEST, BoardRow, MatchFilter
from newsift.desk.session import Desk
from newsift.operations.actor import current_user
from newsift.operations.events import EventState
from newsift.operations.promises import lapse_reason
from newsift.operations.times import now_ms
from newsift.statistics.pass_rates import an_hour, window_words
from worker.match.records import WHY_TOKENS, Match, MatchRecord
from worker.metrics.registry import label_of
from worker.posts.outcome import PostId
from worker.posts.times import rfc3339
from worker.seeds.record import PREFIX
from worker.text import cut, one_line

MOST = 50  # events at once
LONGEST_REASON = 200  # characters of a reason
MOST_REFUSED = 10  # that are named
STATES = ("live", "paused", "expired", "refused")  # of an event, the first that any record has
Json = dict[str, Any]
SHORT, LONG = 600, 50_000  # characters of a post, in the list and in full
WORD = 60  # characters of one that is lit
NAME = 200  # of an author, a title or a link that is shown
MINUTE = 60_000
MOST_MARKS = 6  # people whose labels stand beside a post
PostName = Annotated[str, Meta(min_length=1, max_length=LONGEST)]
Cosine = Annotated[float, Meta(ge=-2, le=2)]
Marks = Mapping[PostId, list[Json]]


@reads("/api/session", Nothing)
def session(desk: Desk, _request: Nothing) -> dict[str, Any]:
    """Where it reads, whether it may act, and by which name who sits here is called at first."""
    return {
        "kafka": desk.config.kafka.bootstrap_servers,
        "read_only": desk.read_only,
        "version": version("newsift"),
        "you": cut(one_line(current_user()), LONGEST_NAME) or "somebody",
    }


class EventsRequest(Struct, frozen=True):
    """Which events: those with these letters in their names."""

    text: Annotated[str, Meta(max_length=100)] = ""
    skip: Annotated[int, Meta(ge=0, le=10**7)] = 0


@reads("/api/events", EventsRequest)
def events(desk: Desk, request: EventsRequest) -> Json:
    """The events by name, fifty at a time, and the seeds that are refused."""
    desk.health.look()
    by_event = defaultdict[str, list[Json]](list)
    refused = []
    for row in desk.model.rows():
        if row["state"] == "refused":
            refused.append(
                {"id": cut(row["id"], LONGEST_REASON), "reason": cut(row["reason"], LONGEST_REASON)}
            )
            if not row.get("event") and not row["id"].startswith(PREFIX):
                continue  # of which event it was meant to be nobody knows
        by_event[row.get("event") or row["id"].removeprefix(PREFIX)].append(row)
    drift, bursts = desk.health.drift(), desk.health.bursts()
    sought = request.text.casefold()
    names = sorted(name for name in {*by_event, *desk.board.events()} if sought in name.casefold())
    page = names[request.skip : request.skip + MOST]
    return {
        "events": [
            event_row(desk, name, by_event.get(name, ()))
            | {"drift": drift.get(label_of(name)), "bursts": bursts[label_of(name)]}
            for name in page
        ],
        "total": len(names),
        "refused": refused[:MOST_REFUSED],
        "more_refused": max(len(refused) - MOST_REFUSED, 0),
        "since": rfc3339(desk.board.since),
        "ready": desk.mirrors.of_seeds.ready.is_set() and desk.of_matches.ready.is_set(),
        "away": desk.mirrors.of_seeds.away or desk.of_matches.away,
        "model": desk.model.away,
    }


def event_row(desk: Desk, name: str, rows: Sequence[Json]) -> Json:
    """One event, for the page, by the records of its seeds and its profile."""
    profiles = [row for row in rows if row["id"].startswith(PREFIX)]
    seeds = [row for row in rows if not row["id"].startswith(PREFIX)]
    counts = desk.board.tally(name)
    return {
        "event": name,
        "state": next((each for each in STATES if any(r["state"] == each for r in rows)), "none"),
        "seeds": Counter(row["state"] for row in seeds),
        "thresholds": thresholds_of(row for row in rows if row["state"] == "live"),
        "profile": profile_row(profiles),
        "promise": promise_row(desk, name, profiles),
        "posts": counts.posts,
        "stories": counts.stories,
        "hourly": hourly_row(desk, sum(counts.posts)),
        "number": counts.number,
        "last": rfc3339(counts.last) if counts.number else None,
    }


def hourly_row(desk: Desk, posts: int) -> Json | None:
    """So many matches an hour, and of which time; None where too little has passed."""
    now = now_ms()
    since = max(desk.board.since, desk.outside.stream().since)
    rate = an_hour(posts, since, now)
    return None if rate is None else {"rate": rate, "window": window_words(since, now)}


def thresholds_of(serving: Iterable[Json]) -> list[float]:
    """The thresholds of what is in force, rising; automatic ones are known with the model alone."""
    thresholds = (row.get("cut") or row.get("threshold") for row in serving)
    return sorted({each for each in thresholds if each is not None})


def profile_row(profiles: Sequence[Json]) -> Json | None:
    """Whether the event's profile is in force, and why not."""
    for row in profiles:
        state = "in force" if row["state"] == "live" else row["state"]
        return {"state": state, "why": cut(str(row.get("reason") or ""), LONGEST_REASON)}
    return None


def promise_row(desk: Desk, name: str, profiles: Sequence[Json]) -> Json | None:
    """What was promised of the event's threshold, and why that holds no longer, if so."""
    profile = desk.mirrors.control.profiles.get(name) if profiles else None
    if profile is None or not profile.promise:
        return None
    row = profile_row(profiles)
    assert row is not None
    event = EventState(name, profile=profile, state=row["state"])
    why = lapse_reason(event, desk.pass_rate(profile))
    numbers = {key: profile.promise.get(key) for key in ("precision", "confidence", "labels")}
    return {key: value for key, value in numbers.items() if isinstance(value, (int, float))} | {
        "lapsed": why
    }


class MatchesRequest(Struct, frozen=True):
    """Which matches of an event, and how many."""

    event: EventName
    minutes: Annotated[int, Meta(ge=0, le=24 * 60)] = 0  # the last so many; 0 is any time
    lang: Annotated[str, Meta(max_length=LANGUAGE_CHARS)] = ANY
    platform: Annotated[str, Meta(max_length=LANGUAGE_CHARS)] = ANY
    least: Cosine = -2.0
    most: Cosine = 2.0
    new: bool = False
    text: Annotated[str, Meta(max_length=NAME)] = ""
    seen: Annotated[int, Meta(ge=0, le=ALL)] = ALL
    skip: Annotated[int, Meta(ge=0, le=10**6)] = 0
    count: Annotated[int, Meta(ge=1, le=100)] = 50

    def match_filter(self) -> MatchFilter:
        """The same, as the board takes it."""
        since = now_ms() - self.minutes * MINUTE if self.minutes else 0
        names = {field.name for field in fields(MatchFilter)} - {"since"}
        return MatchFilter(since=since, **{name: getattr(self, name) for name in names})


class StoryRequest(Struct, frozen=True):
    """A story by its name."""

    event: EventName
    group: PostName


class PostRequest(Struct, frozen=True):
    """A match by its post."""

    event: EventName
    platform: PostName
    id: PostName


@reads("/api/matches", MatchesRequest)
def matches(desk: Desk, request: MatchesRequest) -> Json:
    """The stories of an event that are wanted, newest first, and what there is to choose from."""
    tally = desk.board.tally(request.event)
    page = desk.board.find(request.event, request.match_filter())
    marks = marks_of(desk, request.event)
    return {
        "stories": [
            post_row(row, request.event, marks) | {"count": story.count}
            for row, story in page.stories
        ],
        "total": page.total,
        "newer": page.newer,
        "seen": page.last,
        "skip": request.skip,
        "languages": sorted(name for name in tally.languages if name),
        "platforms": sorted(tally.platforms),
        "since": rfc3339(desk.board.since),
        "away": desk.of_matches.away,
        "ready": desk.of_matches.ready.is_set(),
    }


@reads("/api/story", StoryRequest)
def story(desk: Desk, request: StoryRequest) -> list[Json]:
    """The posts that say the same, as far as they are kept, in the order of their coming."""
    marks = marks_of(desk, request.event)
    rows = desk.board.copies(request.event, request.group)
    return [post_row(row, request.event, marks) for row in rows]


@reads("/api/match", PostRequest)
def match(desk: Desk, request: PostRequest) -> Json:
    """One post in full, with its score with each of the event's seeds."""
    row = desk.board.row(request.event, (request.platform, request.id))
    if row is None:
        raise InputError(
            "the post is not among the newest matches any more; all of them can be exported"
        )
    record = row.record
    own = [each for each in record.matches if each.event == request.event]
    return post_row(row, request.event, marks_of(desk, request.event), LONG) | {
        "seeds": [_seed_row(each) for each in own[:NAME]],
        "events": sorted({cut(each.event, NAME) for each in record.matches})[:NAME],
        "model": cut(record.model, WORD),
        "seed_set": cut(record.seed_set, WORD),
        "source": cut(
            f"{record.source.topic}-{record.source.partition}-{record.source.offset}", NAME
        ),
    }


def marks_of(desk: Desk, event: str) -> Marks:
    """What people said of the posts of an event."""
    marks_by_post: defaultdict[PostId, list[Json]] = defaultdict(list)
    for label in desk.mirrors.labels.of(event):
        if len(marks := marks_by_post[label.post_id]) < MOST_MARKS:
            marks.append({"by": cut(label.by, WORD), "label": label.label})
    return marks_by_post


def post_row(row: BoardRow, event: str, marks: Marks, most: int = SHORT) -> Json:
    """A match for the page; all of it is text of strangers, and none of it long."""
    record = row.record
    best = best_of(record, event)
    post = record.post
    return {
        "id": post.id,
        "platform": post.platform,
        "text": cut(post.text, most),
        "cut": len(post.text) > most,
        "author": cut(post.author or "", NAME),
        "created_at": cut(post.created_at or "", WORD),
        "lang": row.lang,
        "url": post.url if len(post.url or "") <= 2 * LONGEST else None,
        "at": rfc3339(row.at),
        "number": row.number,
        "score": row.score,
        "threshold": best.threshold,
        "new": row.new,
        "group": row.group,
        "why": _why(best),
        "marks": marks.get(row.post_id, []),
    }


def best_of(record: MatchRecord, event: str) -> Match:
    """The best of a record's matches with an event."""
    return max((m for m in record.matches if m.event == event), key=lambda m: m.score)


def _seed_row(match: Match) -> Json:
    return {
        "id": cut(match.seed_id, NAME),
        "title": cut(match.title, NAME),
        "score": match.score,
        "threshold": match.threshold,
        "why": _why(match),
    }


def _why(match: Match) -> list[tuple[str, float]]:
    return [(cut(word, WORD), part) for word, part in match.why[:WHY_TOKENS]]


ENDPOINTS = (session, events, matches, story, match)
