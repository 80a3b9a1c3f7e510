"""What the topic of matches says of an event in some span of time, counted once for all figures."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TypeVar

from encoder.errors import InputError
from worker.config import Config
from worker.desk.export.asked import Asked
from worker.files.out.rows import Finding
from worker.kafka.reading import TopicReader
from worker.match.records import MatchRecord
from worker.posts.times import LAST_MS, milliseconds, rfc3339, utc

K = TypeVar("K")

HOUR, MINUTE = 3_600_000, 60_000
FEW_HOURS = 2 * HOUR
LONGEST = 256  # characters of a name
MOST_POSTS = 2_000_000
MOST_NAMES = 1_000  # seeds, sets of seeds and models that are told apart


@dataclass
class Tally:
    """Posts, each counted at its first match with the event, and what they were matched by."""

    matches: int = 0  # records that name the event, copies delivered again included
    first: int = LAST_MS  # when the first post came to its topic, in milliseconds
    last: int = 0
    scores: list[float] = field(default_factory=list)  # the best one of each post
    hours: Counter[int] = field(default_factory=Counter)  # posts by hours since 1970
    minutes: Counter[int] = field(
        default_factory=Counter
    )  # by minutes, while they are of few hours
    seeds: Counter[tuple[str, str]] = field(default_factory=Counter)  # posts by id and version
    thresholds: Counter[float] = field(default_factory=Counter)
    seed_sets: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    stories: int = 0
    ungrouped: int = 0  # posts of records that say nothing of stories
    _posts: set[bytes] = field(default_factory=set)
    _groups: set[bytes] = field(default_factory=set)

    @property
    def posts(self) -> int:
        """How many different posts matched."""
        return len(self.scores)

    def add(self, found: Finding) -> None:
        """Count a record with its matches of the event."""
        self.matches += 1
        record, best = found.record, max(found.matches, key=lambda match: match.score)
        if not _is_new(self._posts, [record.post.platform, record.post.id]):
            return
        if len(self._posts) > MOST_POSTS:
            raise InputError(
                f"since: more than {MOST_POSTS:,} posts match; give a later time, or a higher score"
            )
        at = came_at(record)
        self.first, self.last = min(self.first, at), max(self.last, at)
        self.scores.append(_cosine(best.score))
        self.hours[at // HOUR] += 1
        if self.last - self.first < FEW_HOURS:
            self.minutes[at // MINUTE] += 1
        else:
            self.minutes.clear()
        _count(self.seeds, (best.seed_id[:LONGEST], best.seed_version[:LONGEST]))
        _count(self.thresholds, _cosine(best.threshold))
        _count(self.seed_sets, record.seed_set[:LONGEST])
        _count(self.models, record.model[:LONGEST])
        grouped = isinstance(record.group, str)
        self.ungrouped += not grouped
        self.stories += _is_new(self._groups, [str(record.group)]) if grouped else 1


def tallied_event(cluster: TopicReader, config: Config, asked: Asked) -> Tally:
    """The matches that are meant, counted."""
    tally = Tally()
    for batch in asked.found(cluster, config):
        for found in batch:
            tally.add(found)
    return tally


def came_at(record: MatchRecord) -> int:
    """When a post came to its topic, as Kafka says; else when it was worked on."""
    if 0 < record.source.timestamp <= LAST_MS:
        return record.source.timestamp
    try:
        return milliseconds(utc(record.processed_at))
    except (ValueError, OverflowError):
        return 0


def span_of(tally: Tally) -> tuple[str, str] | None:
    """When the first and the last post came; None where there is none."""
    return (rfc3339(tally.first), rfc3339(tally.last)) if tally.posts else None


def _is_new(known: set[bytes], names: Iterable[str]) -> bool:
    """Whether a name was not there before; it is from now on."""
    made = blake2b(digest_size=12)
    for name in names:
        made.update(name.encode("utf-8", "surrogatepass") + b"\0")
    before = len(known)
    known.add(made.digest())
    return len(known) > before


def _count(counter: Counter[K], name: K) -> None:
    if name in counter or len(counter) < MOST_NAMES:
        counter[name] += 1


def _cosine(told: float) -> float:
    """A score, whatever somebody else has written in its place."""
    return min(max(told, -1.0), 1.0)
