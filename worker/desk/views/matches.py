"""The matches of an event as its page shows them: stories, newest first, and one post in full."""

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any

from msgspec import Meta, Struct

from encoder.errors import InputError
from worker.desk.desk import Desk
from worker.desk.finding import ALL, ANY, Wanted
from worker.desk.server.api import EventName, reads
from worker.desk.stories import LANGUAGE_CHARS, LONGEST, Row
from worker.judge.labels import PostId
from worker.match.records import WHY_TOKENS, Match, MatchRecord
from worker.posts.times import rfc3339
from worker.visible import cut

SHORT, LONG = 600, 50_000  # characters of a post, in the list and in full
WORD = 60  # characters of one that is lit
NAME = 200  # of an author, a title or a link that is shown
MINUTE = 60_000
MOST_MARKS = 6  # people whose labels stand beside a post

PostName = Annotated[str, Meta(min_length=1, max_length=LONGEST)]
Cosine = Annotated[float, Meta(ge=-2, le=2)]
Json = dict[str, Any]
Marks = Mapping[PostId, list[Json]]


class MatchesWanted(Struct, frozen=True):
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

    def wanted(self) -> Wanted:
        """The same, as the board takes it."""
        since = int(time.time() * 1000) - self.minutes * MINUTE if self.minutes else 0
        given = {field.name for field in fields(Wanted)} - {"since"}
        return Wanted(since=since, **{name: getattr(self, name) for name in given})


class StoryWanted(Struct, frozen=True):
    """A story by its name."""

    event: EventName
    group: PostName


class PostWanted(Struct, frozen=True):
    """A match by its post."""

    event: EventName
    platform: PostName
    id: PostName


@reads("/api/matches", MatchesWanted)
def matches(desk: Desk, asked: MatchesWanted) -> Json:
    """The stories of an event that are wanted, newest first, and what there is to choose from."""
    tally = desk.board.tally(asked.event)
    found = desk.board.find(asked.event, asked.wanted())
    marks = marks_of(desk, asked.event)
    return {
        "stories": [
            post_row(row, asked.event, marks) | {"count": story.count}
            for row, story in found.stories
        ],
        "total": found.total,
        "newer": found.newer,
        "seen": found.last,
        "skip": asked.skip,
        "languages": sorted(name for name in tally.languages if name),
        "platforms": sorted(tally.platforms),
        "since": rfc3339(desk.board.since),
        "away": desk.of_matches.away,
        "ready": desk.of_matches.ready.is_set(),
    }


@reads("/api/story", StoryWanted)
def story(desk: Desk, asked: StoryWanted) -> list[Json]:
    """The posts that say the same, as far as they are kept, in the order of their coming."""
    marks = marks_of(desk, asked.event)
    rows = desk.board.copies(asked.event, asked.group)
    return [post_row(row, asked.event, marks) for row in rows]


@reads("/api/match", PostWanted)
def match(desk: Desk, asked: PostWanted) -> Json:
    """One post in full, with its score with each of the event's seeds."""
    row = desk.board.row(asked.event, (asked.platform, asked.id))
    if row is None:
        raise InputError(
            "the post is not among the newest matches any more; all of them can be exported"
        )
    record = row.record
    own = [each for each in record.matches if each.event == asked.event]
    return post_row(row, asked.event, marks_of(desk, asked.event), LONG) | {
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
    found: defaultdict[PostId, list[Json]] = defaultdict(list)
    for label in desk.known.labels.of(event):
        if len(marks := found[label.post_id]) < MOST_MARKS:
            marks.append({"by": cut(label.by, WORD), "label": label.label})
    return found


def post_row(row: Row, event: str, marks: Marks, most: int = SHORT) -> Json:
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


def _seed_row(found: Match) -> Json:
    return {
        "id": cut(found.seed_id, NAME),
        "title": cut(found.title, NAME),
        "score": found.score,
        "threshold": found.threshold,
        "why": _why(found),
    }


def _why(found: Match) -> list[tuple[str, float]]:
    return [(cut(word, WORD), part) for word, part in found.why[:WHY_TOKENS]]


ENDPOINTS = (matches, story, match)
