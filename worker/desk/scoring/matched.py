"""An event's matches on the board, and its labels, as the figure of its scores needs them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf

from worker.desk.board import Board
from worker.desk.scoring.measure import Measure
from worker.desk.stories import Row, Story
from worker.judge.draw import Candidate, queue_of, to_certify
from worker.judge.glance import Draws, Mark, draws_of, said_together
from worker.judge.labels import Label, PostId, verdicts
from worker.judge.passing import Passed
from worker.match.records import Match, MatchRecord
from worker.posts.outcome import Post
from worker.posts.times import milliseconds, utc

MOST_STORIES = 5_000  # the newest
MOST_MARKS = 500  # labelled posts, those that were judged last
CLOSE = 1e-6  # thresholds that differ by less are the same


@dataclass(frozen=True, slots=True)
class Own:
    """The first of the matches that say the same, by what the event is compared with now."""

    candidate: Candidate
    passed: Passed
    processed_at: str


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """The matches of an event that are kept, and since when they are all that there were."""

    own: tuple[Own, ...]
    since: int


def matched(board: Board, measure: Measure) -> Matched:
    """Those that are on the board now."""
    return _matched(board, measure, board.tally(measure.event.name).number)


@lru_cache(8)
def _matched(board: Board, measure: Measure, _number: int) -> Matched:
    """The same, once for each that came."""
    name, names = measure.event.name, measure.names
    everything = board.stories(name)
    stories = everything[-MOST_STORIES:]
    own: list[Own] = []
    since = board.since
    if len(stories) < len(everything) or _has_let_go(board, name, everything):
        since = max(since, min((story.first.at for story in stories), default=0))
    for story in stories:
        for row in list(story.rows.values()):
            record = row.record
            best = max((m for m in record.matches if m.event == name), key=lambda m: m.score)
            cut = names.get((best.seed_id, best.seed_version))
            if cut is not None:
                own.append(_own(row, record, best, cut, story.count))
                break
            since = max(since, row.at + 1)  # what it was compared with says nothing of now
    return Matched(tuple(own), since)


def _own(row: Row, record: MatchRecord, best: Match, cut: float, posts: float) -> Own:
    hid = best.threshold if best.threshold > cut + CLOSE else -inf
    named = Post(record.post.id, record.post.platform, "")  # its text is not needed, and much
    candidate = Candidate(named, best.score, row.group)
    return Own(candidate, Passed(best.score, row.at, posts, hid), record.processed_at)


def _has_let_go(board: Board, name: str, stories: Sequence[Story]) -> bool:
    """Whether older matches than those that are kept were counted."""
    return sum(board.tally(name).posts) > sum(story.count for story in stories)


def drawn(found: Matched, labels: Sequence[Label]) -> Draws:
    """The labels that were drawn at random, of the matches of the newest draw."""
    certifying = [label for label in labels if label.drawn == "certify"]
    known = {own.candidate.post_id for own in found.own}
    name = queue_of(label for label in certifying if label.post_id in known)
    until = milliseconds(utc(name.until)) if name else -1
    there = [o.candidate for o in found.own if milliseconds(utc(o.processed_at)) <= until]
    order, said = to_certify(there), verdicts(certifying)
    return draws_of([each.score for each in order], [said.get(each.post_id) for each in order])


def marked(found: Matched, labels: Sequence[Label], measure: Measure) -> tuple[Mark, ...]:
    """The posts that were judged last, by what they score now."""
    newest = sorted(labels, key=lambda label: milliseconds(utc(label.at)), reverse=True)
    posts: dict[PostId, Post] = {}
    for label in newest:
        if len(posts) < MOST_MARKS:
            posts.setdefault(label.post_id, label.post)
    said = said_together(labels)
    known = {own.candidate.post_id: own.candidate.score for own in found.own}
    rest = tuple((name, post.text) for name, post in posts.items() if name not in known)
    scores = known | _scored(measure, rest)
    return tuple(Mark(scores[name], said[name]) for name in posts)


@lru_cache(16)
def _scored(measure: Measure, posts: tuple[tuple[PostId, str], ...]) -> dict[PostId, float]:
    scores = measure.scores([text for _, text in posts]).tolist()
    return dict(zip([name for name, _ in posts], scores, strict=True))
