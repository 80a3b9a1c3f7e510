"""The events, the matches of one event, who uses the desk, and the strip of every page."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any

from msgspec import Meta, Struct

from encoder.errors import InputError
from newsift.desk.api import (
    MAX_BY_CHARS,
    EmptyRequest,
    EventName,
    EventRequest,
    get_endpoint,
)
from newsift.desk.matches import StoryFilter
from newsift.desk.post_fields import MAX_POST_CHARS, post_fields
from newsift.desk.session import Desk
from newsift.operations.actor import current_user
from newsift.operations.events import IN_FORCE, NO_PROFILE, EventState
from newsift.operations.matches import MAX_ID_CHARS, MatchRow
from newsift.operations.promises import lapse_reason
from newsift.statistics.pass_rates import hourly_rate
from worker.match.records import MAX_WHY_TOKENS
from worker.posts.outcome import PostId
from worker.posts.times import HOUR_MS, rfc3339
from worker.seeds.record import PROFILE_PREFIX
from worker.text import one_line, shorten

MAX_EVENTS, MAX_EVENT_ARTICLES = 50, 20
MAX_REFUSED = 10
MAX_REASON_CHARS = 200
MAX_LIST_TEXT_CHARS = 600
MAX_WORD_CHARS, MAX_NAME_CHARS = 60, 200
MAX_LABELS, MAX_MATCH_SEEDS, MAX_MATCH_EVENTS = 6, 200, 200
# An event has the first state that one of its records has.
STATES = ("live", "paused", "expired", "refused")
PostName = Annotated[str, Meta(min_length=1, max_length=MAX_ID_CHARS)]
Json = dict[str, Any]
LabelRows = Mapping[PostId, list[Json]]


@get_endpoint("/api/session", EmptyRequest)
def session(desk: Desk, _request: EmptyRequest) -> Json:
    return {
        "read_only": desk.read_only,
        "is_file": desk.period.is_file,
        "you": shorten(one_line(current_user()), MAX_BY_CHARS) or "somebody",
    }


@get_endpoint("/api/health", EmptyRequest)
def health(desk: Desk, _request: EmptyRequest) -> Json:
    return desk.health.summary() | {"file": desk.files.progress if desk.files else None}


class EventsRequest(Struct, frozen=True):
    text: Annotated[str, Meta(max_length=100)] = ""  # part of the name
    skip: Annotated[int, Meta(ge=0, le=10**7)] = 0


@get_endpoint("/api/events", EventsRequest)
def events(desk: Desk, request: EventsRequest) -> Json:
    by_event = defaultdict[str, list[Json]](list)
    refusals = []
    for row in desk.model.rows():
        if row["state"] == "refused":
            refusals.append({key: shorten(row[key], MAX_REASON_CHARS) for key in ("id", "reason")})
            if not row.get("event") and not row["id"].startswith(PROFILE_PREFIX):
                continue  # its event is unknown
        by_event[row.get("event") or row["id"].removeprefix(PROFILE_PREFIX)].append(row)
    text, since = request.text.casefold(), desk.matches.since
    names = sorted(name for name in {*by_event, *desk.matches.events()} if text in name.casefold())
    follower = desk.mirrors.seeds_follower
    return {
        "events": [
            event_row(desk, name, by_event.get(name, ()))
            for name in names[request.skip : request.skip + MAX_EVENTS]
        ],
        "total": len(names),
        "refused": refusals[:MAX_REFUSED],
        "more_refused": max(len(refusals) - MAX_REFUSED, 0),
        "since": rfc3339(since) if since else None,
        "until": rfc3339(desk.period.now()) if desk.period.is_file and since else None,
        "ready": follower.ready.is_set() and desk.mirrors.matches_follower.ready.is_set(),
        "error": follower.error or desk.mirrors.matches_follower.error,
        "model": desk.model.error,
    }


@get_endpoint("/api/event", EventRequest)
def event_exists(desk: Desk, request: EventRequest) -> Json:
    """An event is there while it has an article, a profile, a match, a label or a note."""
    follower, rows = desk.mirrors.seeds_follower, desk.model.rows()
    labels = desk.mirrors.labels
    note = labels.note(request.event)
    names = {row.get("event") or row["id"].removeprefix(PROFILE_PREFIX) for row in rows}
    articles = (
        row
        for row in rows
        if row.get("event") == request.event and not row["id"].startswith(PROFILE_PREFIX)
    )
    return {
        "exists": request.event in {*names, *desk.matches.events()}
        or bool(labels.event_labels(request.event) or note),
        "note": note and {"text": note.note, "by": shorten(note.by, MAX_NAME_CHARS), "at": note.at},
        "articles": [
            {"id": row["id"], "title": shorten(str(row.get("title") or row["id"]), MAX_NAME_CHARS)}
            for row in islice(articles, MAX_EVENT_ARTICLES)
        ],
        "ready": follower.ready.is_set() and desk.mirrors.matches_follower.ready.is_set(),
    }


def event_row(desk: Desk, name: str, rows: Sequence[Json]) -> Json:
    """`rows` are those of its seeds and of its profile."""
    seeds = [row for row in rows if not row["id"].startswith(PROFILE_PREFIX)]
    row, profile, status = None, None, NO_PROFILE
    if stored := next((row for row in rows if row["id"].startswith(PROFILE_PREFIX)), None):
        status = IN_FORCE if stored["state"] == "live" else stored["state"]
        row = {"state": status, "why": shorten(str(stored.get("reason") or ""), MAX_REASON_CHARS)}
        profile = desk.mirrors.control.profiles.get(name)
    thresholds = thresholds_of(row for row in rows if row["state"] == "live")
    event = EventState(name, profile=profile, profile_status=status, thresholds=tuple(thresholds))
    counts = desk.matches.counts(name)
    return {
        "event": name,
        "state": next(
            (state for state in STATES if any(r["state"] == state for r in rows)), "none"
        ),
        "seeds": Counter(row["state"] for row in seeds),
        "thresholds": thresholds,
        "profile": row,
        "promise": promise_row(event, desk.pass_rate(profile)),
        "all_posts": counts.all_posts,
        "all_stories": counts.all_stories,
        "posts": counts.posts,
        "hours_each": desk.period.hours.step,
        "hourly": hourly_row(desk, counts.all_posts),
        "last": rfc3339(counts.last) if counts.last else None,
    }


def hourly_row(desk: Desk, posts: int) -> Json | None:
    """None where less than an hour is known: what is read at the start is no rate."""
    period = desk.period
    since = period.rates_since(max(desk.matches.since, desk.stream.stream_rate().since))
    is_known = period.now() - since >= HOUR_MS
    rate = hourly_rate(posts, since, period.now()) if is_known else None
    return None if rate is None else {"rate": rate, "window": period.describe(since)}


def thresholds_of(live: Iterable[Json]) -> list[float]:
    """Rising; automatic ones only with the model."""
    thresholds = (row.get("threshold_in_force") or row.get("threshold") for row in live)
    return sorted({threshold for threshold in thresholds if threshold is not None})


def promise_row(event: EventState, rate: float | None) -> Json | None:
    """None unless the promise is sound."""
    profile = event.profile
    if profile is None or profile.promise is None:
        return None
    numbers = {name: profile.promise.get(name) for name in ("precision", "confidence")}
    if not all(isinstance(number, float) for number in numbers.values()):
        return None
    return {**numbers, "threshold": profile.threshold, "lapsed": lapse_reason(event, rate)}


class MatchesRequest(StoryFilter, frozen=True, kw_only=True):
    event: EventName


class StoryRequest(Struct, frozen=True):
    event: EventName
    group: PostName


class PostRequest(Struct, frozen=True):
    event: EventName
    platform: PostName
    id: PostName


@get_endpoint("/api/matches", MatchesRequest)
def matches(desk: Desk, request: MatchesRequest) -> Json:
    counts = desk.matches.counts(request.event)
    page = desk.matches.find(request.event, request)
    labels, since = labels_by_post(desk, request.event), desk.matches.since
    # One that is refused has no event.
    live = (row for row in desk.model.rows() if row["state"] == "live")
    in_force = thresholds_of(row for row in live if row["event"] == request.event)
    return {
        "stories": [
            post_row(row, labels) | {"count": len(story.rows)} for row, story in page.stories
        ],
        "threshold": min(in_force, default=None),  # None if it is unknown
        "total": page.total,
        "newer": page.newer,
        "left_out": counts.left_out,
        "up_to": page.last,
        "skip": request.skip,
        "languages": sorted(name for name in counts.languages if name),
        "platforms": sorted(counts.platforms),
        "since": rfc3339(since) if since else None,
        "error": desk.mirrors.matches_follower.error,
        "ready": desk.mirrors.matches_follower.ready.is_set(),
    }


@get_endpoint("/api/story", StoryRequest)
def story(desk: Desk, request: StoryRequest) -> list[Json]:
    labels = labels_by_post(desk, request.event)
    rows = desk.matches.copies(request.event, request.group)
    return [post_row(row, labels) for row in rows]


@get_endpoint("/api/match", PostRequest)
def match(desk: Desk, request: PostRequest) -> Json:
    row = desk.matches.row(request.event, (request.platform, request.id))
    if row is None:
        raise InputError(
            "the post is not among the newest matches any more; all of them can be exported"
        )
    record = row.record
    event_matches = [hit for hit in record.matches if hit.event == request.event]
    names = {shorten(hit.event, MAX_NAME_CHARS) for hit in record.matches}
    source = record.source
    return post_row(row, labels_by_post(desk, request.event), MAX_POST_CHARS) | {
        "seeds": [
            {
                "id": shorten(hit.seed_id, MAX_NAME_CHARS),
                "title": shorten(hit.title, MAX_NAME_CHARS),
                "score": hit.score,
                "threshold": hit.threshold,
                "why": shorten_words(hit.why),
            }
            for hit in event_matches[:MAX_MATCH_SEEDS]
        ],
        "events": sorted(names)[:MAX_MATCH_EVENTS],
        "model": shorten(record.model, MAX_WORD_CHARS),
        "seed_set": shorten(record.seed_set, MAX_WORD_CHARS),
        "source": shorten(f"{source.topic}-{source.partition}-{source.offset}", MAX_NAME_CHARS),
    }


def labels_by_post(desk: Desk, event: str) -> LabelRows:
    by_post: defaultdict[PostId, list[Json]] = defaultdict(list)
    for label in desk.mirrors.labels.event_labels(event):
        if len(labels := by_post[label.post_id]) < MAX_LABELS:
            labels.append({"by": shorten(label.by, MAX_WORD_CHARS), "label": label.label})
    return by_post


def post_row(row: MatchRow, labels: LabelRows, most: int = MAX_LIST_TEXT_CHARS) -> Json:
    """Bounded: all texts are of strangers."""
    post = row.post
    return post_fields(post, most) | {
        "cut": len(post.text) > most,
        "deleted": row.is_deleted,
        "lang": row.lang,
        "at": rfc3339(row.at) if row.at else None,
        "score": row.score,
        "threshold": row.threshold,
        "new": row.new,
        "link": row.has_link,
        "group": row.group,
        "why": shorten_words(row.best.why),
        "labels": labels.get(row.post_id, []),
    }


def shorten_words(why: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    return [(shorten(word, MAX_WORD_CHARS), part) for word, part in why[:MAX_WHY_TOKENS]]
