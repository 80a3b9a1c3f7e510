"""What somebody is asked about: matches and near misses of an event, frozen before the first."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from worker.actions.events.promising import Wish, profile_now
from worker.actions.labels.candidates import Found, matches_of
from worker.actions.labels.near import near_misses
from worker.config import Config
from worker.judge.draw import Candidate, queue_of
from worker.judge.labels import Label, PostId, QueueName
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


def frozen(
    cluster: TopicReader, config: Config, event: str, kind: Kind, start: int,
    labels: Iterable[Label], nonce: str,
) -> Frozen:  # fmt: skip
    """What may be asked of an event's matches since then, as they are now.

    The nonce keys the order, unless labels of these matches were drawn by another one.
    """
    found = matches_of(cluster, config, event, start)
    begun = queue_of(each for each in labels if each.drawn == "certify" and each.post_id in found)
    nonce = begun.nonce if begun else nonce
    profile = profile_now(cluster, config, event)
    candidates = [each.candidate for each in found.values()]
    if kind == "certify":
        wish = Wish.of(profile)
        newest = max((milliseconds(utc(f.record.processed_at)) for f in found.values()), default=0)
        name = QueueName(nonce, rfc3339(newest))
        queue = CertifyQueue(candidates, wish.precision, wish.tested, name)
        return Frozen(queue, found, profile)
    near, edge = near_misses(config, event, lambda: cluster.cluster_id)
    return Frozen(_around(candidates, near, found, edge, nonce), found, profile)


def _around(
    candidates: list[Candidate], near: list[Candidate], found: Mapping[PostId, Found],
    edge: float | None, nonce: str,
) -> LearnQueue:  # fmt: skip
    newest = [each.match.threshold for each in found.values()][-1:]
    return LearnQueue([*candidates, *near], (newest or [edge or 0.0])[0], nonce)
