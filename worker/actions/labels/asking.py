"""What somebody is asked about: matches and near misses of an event, frozen before the first."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from worker.actions.events.promising import Wish, profile_now
from worker.actions.labels.candidates import Found, matches_of
from worker.actions.labels.near import near_misses
from worker.config import Config
from worker.judge.draw import Candidate
from worker.judge.labels import PostId, QueueName
from worker.judge.queues import CertifyQueue, LearnQueue, Queue
from worker.kafka.reading import TopicReader
from worker.posts.times import milliseconds, rfc3339, utc
from worker.seeds.profile import Profile

Kind = Literal["certify", "learn"]
NOTHING = {"certify": "no matches", "learn": "no matches and no near misses"}


@dataclass(frozen=True, slots=True)
class Frozen:
    """A queue, the matches that it was made of, and the profile that the event had then."""

    queue: Queue
    found: Mapping[PostId, Found]
    profile: Profile | None


def frozen(cluster: TopicReader, config: Config, event: str, kind: Kind, start: int) -> Frozen:
    """What may be asked of an event's matches since then, as they are now."""
    found = matches_of(cluster, config, event, start)
    profile = profile_now(cluster, config, event)
    candidates = [each.candidate for each in found.values()]
    if kind == "certify":
        wish = Wish.of(profile)
        newest = max((milliseconds(utc(f.record.processed_at)) for f in found.values()), default=0)
        name = QueueName(rfc3339(newest))
        queue = CertifyQueue(candidates, wish.precision, wish.tested, name)
        return Frozen(queue, found, profile)
    near, edge = near_misses(config, event)
    return Frozen(_around(candidates, near, found, edge), found, profile)


def _around(
    candidates: list[Candidate], near: list[Candidate], found: Mapping[PostId, Found],
    edge: float | None,
) -> LearnQueue:  # fmt: skip
    newest = [each.match.threshold for each in found.values()][-1:]
    return LearnQueue([*candidates, *near], (newest or [edge or 0.0])[0])
