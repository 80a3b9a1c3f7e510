"""Counts of posts on an event: the draw of posts to label, and the estimate by the labels."""

from array import array
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Literal

import numpy as np

from encoder.errors import InputError
from newsift.operations.deletions import DeletedPosts, read_deletions, without_content
from newsift.operations.labels import (
    FrozenQueue,
    QueueRequest,
    request_near_answers,
    without_deleted,
)
from newsift.operations.matches import MatchRow, match_rows
from newsift.operations.messages import notify
from newsift.operations.times import now_ms
from newsift.statistics.count_draw import FramePosts, draw_posts, frame_key, plan_strata
from newsift.statistics.count_frame import CountFrame, CountSeries, count_series, frames_of
from newsift.statistics.labels import CountDraw, Label, QueueName
from newsift.statistics.queues import Candidate, CountQueue, Question, ScoredPost
from worker.config import Config
from worker.kafka.reading import Offsets, TopicReader
from worker.match.near import NearMiss, Stratum, merge_strata
from worker.posts.times import DAY_MS, HOUR_MS, LAST_MS, rfc3339

MAX_FRAME_POSTS = 1_000_000  # matches of an event: some 100 MB
ScoredBy = tuple[str, str]  # seed set and model


@dataclass(slots=True)
class CountedMatches:
    """An event's matches without their texts, in the order of the topic."""

    keys: "array[int]" = field(default_factory=lambda: array("Q"))
    scores: "array[float]" = field(default_factory=lambda: array("f"))
    times: "array[int]" = field(default_factory=lambda: array("q"))
    groups: "array[int]" = field(default_factory=lambda: array("Q"))
    processed: "array[int]" = field(default_factory=lambda: array("q"))
    scorings: "array[int]" = field(default_factory=lambda: array("l"))
    scoring_numbers: dict[ScoredBy, int] = field(default_factory=dict)

    def add(self, row: MatchRow, nonce: str) -> None:
        self.keys.append(frame_key(row.post_id, nonce))
        self.scores.append(row.score)
        self.times.append(row.at)
        self.groups.append(frame_key(row.group, nonce))
        self.processed.append(row.came)
        numbers = self.scoring_numbers
        self.scorings.append(numbers.setdefault(row.scored_by, len(numbers)))

    @property
    def newest(self) -> tuple[ScoredBy, int]:
        """What scored the newest match, and when that was processed."""
        last = int(np.argmax(self.processed))
        return list(self.scoring_numbers)[self.scorings[last]], self.processed[last]

    def select(self, scored_by: ScoredBy, until: int) -> FramePosts:
        own = np.array(self.scorings) == self.scoring_numbers.get(scored_by, -1)
        own &= np.array(self.processed) <= until
        return FramePosts.of(
            np.array(self.keys, np.uint64)[own], np.array(self.scores, np.float32)[own],
            np.array(self.times, np.int64)[own], np.array(self.groups, np.uint64)[own],
        )  # fmt: skip

    def count_others(self, scored_by: ScoredBy, until: int) -> int:
        """Posts up to then that matched by other seeds or another model, and not by these."""
        keys = np.array(self.keys, np.uint64)
        own = np.array(self.scorings) == self.scoring_numbers.get(scored_by, -1)
        others = ~own & (np.array(self.processed) <= until)
        return len(np.setdiff1d(keys[others], keys[own]))


@dataclass(frozen=True, slots=True)
class MatchedFile:
    """The posts of a file, all of which were matched."""

    begin: Offsets  # of their matches
    posts: int


class EventPosts:
    """The matches of an event on the topic, and its near misses at the workers."""

    def __init__(
        self, cluster: TopicReader, config: Config, event: str, file: MatchedFile | None = None
    ) -> None:
        self._cluster, self._config, self.event, self._file = cluster, config, event, file

    @property
    def is_file(self) -> bool:
        return self._file is not None

    def rows(self, since: int) -> Iterator[MatchRow]:
        topic, file = self._config.topics.matches, self._file
        begin = file.begin if file else self._cluster.offsets_at(topic, since)
        for batch in self._cluster.read(topic, begin):
            for message in batch:
                for row in match_rows(message, LAST_MS, is_file=self.is_file):
                    if row.event == self.event and not row.has_link:
                        yield row

    def matches(self, since: int, nonce: str) -> CountedMatches:
        matches = CountedMatches()
        for row in self.rows(since):
            matches.add(row, nonce)
            if len(matches.keys) > MAX_FRAME_POSTS:
                raise InputError(
                    f"event {self.event!r}: more than {MAX_FRAME_POSTS:,} matches since "
                    f"{rfc3339(since)}; --since a later time"
                )
        return matches

    def drawn(
        self, since: int, nonce: str, keys: Container[int], deleted: DeletedPosts
    ) -> dict[int, MatchRow]:
        """The matches with these keys, each at its first; deleted ones without their content."""
        found: dict[int, MatchRow] = {}
        for row in self.rows(since):
            if (key := frame_key(row.post_id, nonce)) in keys and key not in found:
                found[key] = row.without_content() if row.post_id in deleted else row
        return found

    def deletions(self, since: int) -> DeletedPosts:
        return read_deletions(self._cluster, self._config, since)

    def near_misses(self, scored_by: ScoredBy, posts: FramePosts, until: int) -> Stratum:
        """Of all workers and both strata, from the hour of the first match to that of the last."""
        answers = request_near_answers(self._config, self.event, lambda: self._cluster.cluster_id)
        own = [answer for answer in answers if answer.seed_set == scored_by[0]]
        if len(own) < len(answers):
            notify("near misses left out: a worker has newer seeds than the matches")
        first = _hour(int(posts.times.min(initial=until)))
        starts = (
            min((hour for part in answer.strata for hour in part.hours), default=first)
            for answer in own
        )
        start, file = max(starts, default=first), self._file
        merged = merge_strata([part for answer in own for part in answer.strata])
        if file and any(answer.seen > file.posts for answer in own):
            raise InputError(
                "near misses of this file were counted more than once, as articles have changed; "
                "end the desk, and open it again with them"
            )
        if start > first and not (file and sum(merged.hours.values()) == merged.count):
            why = "when a worker started or its seeds changed"
            notify(
                f"near misses are counted from {rfc3339(start)} on, "
                f"{'as far back as a worker counts hours' if file else why}; before it the count "
                "speaks of matches alone"
            )
        hours = {h: count for h, count in merged.hours.items() if first <= h <= until}
        kept = tuple(near for near in merged.kept if _hour(near.timestamp) in hours)
        return Stratum(sum(hours.values()), kept, hours=hours)


def _hour(time_ms: int) -> int:
    return time_ms - time_ms % HOUR_MS


def draw_count(source: EventPosts, request: QueueRequest, labels: Sequence[Label]) -> FrozenQueue:
    """The posts to label for a count.

    A draw goes on while its judge has posts to label, and new matches are by the same seeds and
    model; else a new one begins.
    """
    frames = frames_of(labels)
    if frames and (frozen := _draw_again(source, frames[0])):
        own = (each for each in labels if each.by == request.by and frozen.queue.accepts(each))
        if frozen.queue.next({label.post_id: label.label == "on" for label in own}):
            notify(f"goes on with the draw of {rfc3339(frames[0].until)}")
            return frozen
    before = frozenset(frame.nonce for frame in frames)
    nonce = token_hex(8) if request.nonce in before else request.nonce
    matches = source.matches(request.start, nonce)
    if not matches.keys:
        return FrozenQueue(CountQueue([], nonce), {})
    scored_by, newest = matches.newest
    until = newest or now_ms()  # all posts of a file have come at once
    posts = matches.select(scored_by, until)
    near = source.near_misses(scored_by, posts, until)
    cut, strata = plan_strata(posts, near.count, len(near.kept), request.labels)
    frame = CountFrame(nonce, request.start, until, cut, strata, scored_by, ())
    notify(
        f"a new draw: {frame.planned:,} of {frame.matches:,} matches and {frame.near:,} near misses"
    )
    _report_others(source, matches, frame)
    return _freeze(source, frame, posts, near.kept, before)


def _draw_again(source: EventPosts, frame: CountFrame) -> FrozenQueue | None:
    """None if newer matches are by other seeds or another model, or none is left."""
    matches = source.matches(frame.since, frame.nonce)
    if not matches.keys or matches.newest[0] != frame.scored_by:
        return None
    posts = matches.select(frame.scored_by, frame.until)
    near = source.near_misses(frame.scored_by, posts, frame.until)
    return _freeze(source, frame, posts, _labelled_first(frame, near.kept))


def _report_others(source: EventPosts, matches: CountedMatches, frame: CountFrame) -> None:
    """Of a stream: all posts of a file are matched again when its articles change."""
    others = matches.count_others(frame.scored_by, frame.until)
    if others and not source.is_file:
        notify(
            f"matches left out: {others:,}, by another seed set or model; the count does not speak "
            "of them"
        )


def _labelled_first(frame: CountFrame, kept: Sequence[NearMiss]) -> list[NearMiss]:
    """Those of the draw that have a label, kept or not: after a restart workers keep others."""
    labelled = {
        post.label.post_id: NearMiss(post.label.post, post.label.score or 0.0, post.draw.timestamp)
        for post in frame.posts
        if post.draw.stratum == "near"
    }
    gone = labelled.keys() - {near.post.post_id for near in kept}
    order = sorted(kept, key=lambda near: near.post.post_id not in labelled)
    return [*(labelled[name] for name in sorted(gone)), *order]


def _freeze(
    source: EventPosts, frame: CountFrame, posts: FramePosts, near: Sequence[NearMiss],
    before: frozenset[str] = frozenset(),
) -> FrozenQueue:  # fmt: skip
    """The questions of a frame; posts that are gone by now are left out.

    A deleted post is asked about without its content: nobody can be sure of it, and it counts so.
    """
    division = frame.divide(posts)
    drawn = draw_posts(posts, division, frame.planned_of(len(near)))
    keys = {int(posts.keys[post.number]): post for post in drawn if post.stratum != "near"}
    deleted = source.deletions(frame.since)
    found = source.drawn(frame.since, frame.nonce, keys, deleted)
    questions = list[Question]()
    for post in drawn:
        size, labels = frame.strata[post.stratum]
        candidate: Candidate
        if post.stratum == "near":
            miss = near[post.number]
            is_deleted = miss.post.post_id in deleted
            shown = without_content(miss.post) if is_deleted else miss.post
            candidate, timestamp = ScoredPost(shown, miss.score), miss.timestamp
        elif row := found.get(int(posts.keys[post.number])):
            candidate, timestamp = row, row.at
        else:
            continue
        questions.append(
            Question(
                candidate, "count", 1.0 if post.stratum == "story" else labels / size,
                QueueName(frame.nonce, rfc3339(frame.until)),
                CountDraw(post.stratum, post.posts, timestamp, frame.frozen),
            )
        )  # fmt: skip
    matches = {row.post_id: row for row in found.values()}
    queue = CountQueue(questions, frame.nonce, before)
    return FrozenQueue(queue, matches, frame.scored_by)


@dataclass(frozen=True, slots=True)
class EventCount:
    """A draw with its labels, and the posts of its frame that are still there."""

    frame: CountFrame
    posts: FramePosts
    near_hours: Mapping[int, int]
    deleted: DeletedPosts

    @property
    def suggested_step(self) -> Literal["day", "hour"]:
        """Hours, for posts of up to three days."""
        times = self.posts.times
        return "hour" if len(times) and np.ptp(times) <= 3 * DAY_MS else "day"

    def series(self, step: int) -> CountSeries:
        """By periods of so many milliseconds."""
        return count_series(self.frame, self.posts, self.near_hours, step)


def estimate_count(source: EventPosts, labels: Iterable[Label]) -> EventCount:
    """The newest draw whose labels are complete, else the newest."""
    frames = frames_of(labels)
    if not frames:
        raise InputError(
            f"event {source.event!r}: has no labels for a count; give some, "
            "`newsift labels ask EVENT --queue count`"
        )
    frame = next((each for each in frames if each.is_complete), frames[0])
    if frame is not frames[0]:
        newer = frames[0]
        notify(f"a newer draw has {len(newer.posts):,} of {newer.planned:,} labels; not yet used")
    matches = source.matches(frame.since, frame.nonce)
    posts = matches.select(frame.scored_by, frame.until)
    _report_others(source, matches, frame)
    if (lost := frame.matches - len(posts)) > 0:
        why = "were made by other articles" if source.is_file else "the topic has lost since"
        notify(f"matches that {why}: {lost:,}; no period counts them")
    near = Stratum(0, ())
    if "near" in frame.strata:
        near = source.near_misses(frame.scored_by, posts, frame.until)
        if not near.hours:
            notify("no worker tells when near misses came: they are in the total alone")
    deleted = source.deletions(frame.since)
    shown = (replace(post, label=without_deleted(post.label, deleted)) for post in frame.posts)
    return EventCount(replace(frame, posts=tuple(shown)), posts, near.hours, deleted)
