"""The matches of an event that somebody may be asked about, out of the topic of matches."""

from collections import OrderedDict, deque
from dataclasses import dataclass

from worker.actions.told import say
from worker.config import Config
from worker.files.matches import read_match
from worker.judge.draw import Candidate
from worker.judge.labels import PostId
from worker.kafka.reading import TopicReader
from worker.match.records import Match, MatchRecord
from worker.seeds.record import PREFIX

MOST = 20_000  # matches, the newest: so many are held at once
ROOM = 2**27  # bytes that their records may take together


@dataclass(frozen=True, slots=True)
class Found:
    """A match of the event, as the worker scored it."""

    candidate: Candidate
    match: Match
    record: MatchRecord


def matches_of(
    cluster: TopicReader, config: Config, event: str, start: int
) -> OrderedDict[PostId, Found]:
    """Each post that matches the event since then, in order, scored as the newest one was.

    A promise is of one profile: what another one, or the seeds before it, have scored is left out.
    """
    topic, kept, more = config.topics.matches, OrderedDict[PostId, Found](), 0
    sizes, room = deque[int](), ROOM
    for batch in cluster.read(topic, cluster.at(topic, start)):
        for message in batch:
            if (found := _found(message.value, event)) is None:
                continue
            if kept.setdefault(found.candidate.post_id, found) is not found:
                continue
            sizes.append(len(message.value or b""))
            room -= sizes[-1]
            while len(kept) > MOST or room < 0:
                kept.popitem(last=False)
                room += sizes.popleft()
                more += 1
    if more:
        say(f"{more:,} older matches are left out: there is room for the newest alone")
    return _of_the_newest(kept)


def _found(value: bytes | None, event: str) -> Found | None:
    record = read_match(value)
    own = [match for match in record.matches if match.event == event] if record else []
    if record is None or not own:
        return None
    best = max(own, key=lambda match: match.score)
    group = record.group if isinstance(record.group, str) else ""
    return Found(Candidate(record.post, best.score, group), best, record)


def _of_the_newest(kept: OrderedDict[PostId, Found]) -> OrderedDict[PostId, Found]:
    if not kept:
        return kept
    newest = max(kept.values(), key=lambda found: found.record.processed_at)
    own = OrderedDict((n, found) for n, found in kept.items() if _by(found) == _by(newest))
    if left := len(kept) - len(own):
        say(f"{left:,} matches are left out: the event was compared by another profile then")
    return own


def _by(found: Found) -> tuple[str, str]:
    """The profile that a match is by; seeds count as one."""
    match = found.match
    return (match.seed_id, match.seed_version) if match.seed_id.startswith(PREFIX) else ("", "")
