"""The labels topic, and label queues made of an event's matches and near misses."""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal
from urllib.parse import quote

import msgspec

from newsift.files.rows import read_match
from newsift.operations.events import PromiseTarget
from newsift.operations.keyed_topic import KeyedTopic
from newsift.operations.messages import notify
from newsift.operations.times import present
from newsift.operations.workers import ANSWER_ERRORS, get_answer, worker_addresses
from newsift.statistics.labels import (
    MOST_PAIRS,
    ROOM,
    SCHEMA,
    Label,
    LabelReducer,
    LabelState,
    QueueName,
    Verdict,
)
from newsift.statistics.queues import Candidate, CertifyQueue, LearnQueue, Question, Queue, queue_of
from worker.config import Config
from worker.kafka.reading import TopicReader, connected
from worker.kafka.topics import ensure_labels
from worker.match.records import Match, MatchRecord
from worker.match.reservoir import NearAnswer, merged
from worker.posts.outcome import PostId
from worker.posts.times import milliseconds, rfc3339, utc
from worker.seeds.profile import Profile
from worker.seeds.record import PREFIX

HEADERS = (("schema", SCHEMA.encode()),)
NAMED = 10  # refused labels that are told by their keys


class LabelTopic(KeyedTopic[LabelState]):
    """The latest label of every event, post and person, and a way to replace it."""

    def __init__(self, cluster: TopicReader, config: Config) -> None:
        topic = config.topics.labels
        reducer = partial(LabelReducer, config.limits)
        super().__init__(cluster, config, topic, "label", lambda _: HEADERS, reducer)

    def state(self) -> LabelState:
        """What the topic says now; the user is told of labels that cannot be used."""
        state = super().state()
        for refused in state.refused[:NAMED]:
            notify(f"refused: {refused.key}: {refused.reason}")
        if (more := len(state.refused) - NAMED) > 0:
            notify(f"{more:,} more labels are refused")
        if state.left_out:
            notify(f"{state.left_out:,} labels are left out, of those who gave most: all may take "
                f"{ROOM:,} bytes, which up to {MOST_PAIRS:,} pairs of event and person share; name "
                "another topic in topics.labels")  # fmt: skip
        return state


@contextmanager
def writable_label_topic(config: Config) -> Iterator[LabelTopic]:
    """The topic of labels, made if it is missing; one that may lose labels is told of."""
    make_label_topic(config)
    with label_topic(config) as topic:
        yield topic


def make_label_topic(config: Config) -> None:
    """Make the topic of labels if it is missing; one that may lose labels is told of."""
    for each in ensure_labels(config):
        if each.serious:
            state = f"{each.setting} is {each.actual}, must be {each.required}"
            notify(f"{each.topic}: {state}: {each.why}; see `newsift topics check`")


@contextmanager
def label_topic(config: Config) -> Iterator[LabelTopic]:
    """The topic of labels of a configuration; it has to exist."""
    with connected(config) as cluster:
        cluster.partitions(config.topics.labels)
        yield LabelTopic(cluster, config)


def read_event_labels(cluster: TopicReader, config: Config, event: str) -> tuple[Label, ...]:
    """What people said of an event's posts; nothing where there is no topic of labels yet."""
    if not cluster.exists(config.topics.labels):
        return ()
    return LabelTopic(cluster, config).state().of(event)


MAX_MATCHES = 20_000  # matches, the newest: so many are held at once
MATCHES_BYTES = 2**27  # bytes that their records may take together


@dataclass(frozen=True, slots=True)
class EventMatch:
    """A match of the event, as the worker scored it."""

    candidate: Candidate
    match: Match
    record: MatchRecord


def read_event_matches(
    cluster: TopicReader, config: Config, event: str, start: int
) -> OrderedDict[PostId, EventMatch]:
    """Each post that matches the event since then, in order, scored as the newest one was.

    A promise is of one profile: what another one, or the seeds before it, have scored is left out.
    """
    topic, matches, more = config.topics.matches, OrderedDict[PostId, EventMatch](), 0
    sizes, room = deque[int](), MATCHES_BYTES
    for batch in cluster.read(topic, cluster.at(topic, start)):
        for message in batch:
            if (match := _event_match(message.value, event)) is None:
                continue
            if matches.setdefault(match.candidate.post_id, match) is not match:
                continue
            sizes.append(len(message.value or b""))
            room -= sizes[-1]
            while len(matches) > MAX_MATCHES or room < 0:
                matches.popitem(last=False)
                room += sizes.popleft()
                more += 1
    if more:
        notify(f"{more:,} older matches are left out: there is room for the newest alone")
    return _of_the_newest(matches)


def _event_match(value: bytes | None, event: str) -> EventMatch | None:
    record = read_match(value)
    own = [match for match in record.matches if match.event == event] if record else []
    if record is None or not own:
        return None
    best = max(own, key=lambda match: match.score)
    group = record.group if isinstance(record.group, str) else ""
    return EventMatch(Candidate(record.post, best.score, group), best, record)


def _of_the_newest(matches: OrderedDict[PostId, EventMatch]) -> OrderedDict[PostId, EventMatch]:
    if not matches:
        return matches
    newest = max(matches.values(), key=lambda match: match.record.processed_at)
    own = OrderedDict((n, match) for n, match in matches.items() if _by(match) == _by(newest))
    if left := len(matches) - len(own):
        notify(f"{left:,} matches are left out: the event was compared by another profile then")
    return own


def _by(match: EventMatch) -> tuple[str, str]:
    """The profile that a match is by; seeds count as one."""
    best = match.match
    return (best.seed_id, best.seed_version) if best.seed_id.startswith(PREFIX) else ("", "")


WAIT_S = 5.0
WHERE = "on the ports 6066 to 6075 of this machine"
REMEDY = "desk.workers names the workers"

_read = msgspec.json.Decoder(NearAnswer).decode


def near_misses(
    config: Config, event: str, cluster_id: Callable[[], str]
) -> tuple[list[Candidate], float | None]:
    """Those of all workers together, and the event's threshold; one that is away is told of."""
    answers = near_answers(config, event, cluster_id)
    return candidates_in(answers), next((each.threshold for each in answers if each.edges), None)


def near_answers(config: Config, event: str, cluster_id: Callable[[], str]) -> list[NearAnswer]:
    """What each worker tells of an event; one that is away is told of."""
    addresses = worker_addresses(config, cluster_id)
    if not addresses:
        notify(f"no worker of this Kafka and group answers {WHERE}: no near misses; {REMEDY}")
    return [
        each for each in (_request_near_misses(address, event) for address in addresses) if each
    ]


def candidates_in(answers: Sequence[NearAnswer]) -> list[Candidate]:
    """The near misses that several workers tell of, stratum by stratum."""
    strata = zip(*(answer.strata for answer in answers), strict=False)
    return [Candidate(near.post, near.score) for parts in strata for near in merged(parts).kept]


def _request_near_misses(address: str, event: str) -> NearAnswer | None:
    try:
        status, body = get_answer(address, f"/near?event={quote(event, safe='')}", WAIT_S)
        if status == 200:
            return _read(body)
        why = "it keeps none of this event" if status == 404 else f"HTTP {status}"
    except ANSWER_ERRORS as error:
        why = type(error).__name__
    notify(f"worker {address}: tells of no near misses ({why}); {REMEDY}")
    return None


QueueKind = Literal["certify", "learn"]
NOTHING = {"certify": "no matches", "learn": "no matches and no near misses"}


@dataclass(frozen=True, slots=True)
class FrozenQueue:
    """A queue, the matches that it was made of, and the profile that the event had then."""

    queue: Queue
    matches: Mapping[PostId, EventMatch]
    profile: Profile | None


def freeze_queue(
    cluster: TopicReader, config: Config, event: str, kind: QueueKind, start: int,
    labels: Iterable[Label], profile: Profile | None, nonce: str,
) -> FrozenQueue:  # fmt: skip
    """What may be asked of an event's matches since then, as they are now, by its profile.

    The nonce keys the order, unless labels of these matches were drawn by another one.
    """
    matches = read_event_matches(cluster, config, event, start)
    begun = queue_of(each for each in labels if each.drawn == "certify" and each.post_id in matches)
    nonce = begun.nonce if begun else nonce
    candidates = [each.candidate for each in matches.values()]
    if kind == "certify":
        target = PromiseTarget.of(profile)
        newest = max(
            (milliseconds(utc(f.record.processed_at)) for f in matches.values()), default=0
        )
        name = QueueName(nonce, rfc3339(newest))
        queue = CertifyQueue(candidates, target.precision, target.test_confidence, name)
        return FrozenQueue(queue, matches, profile)
    near, edge = near_misses(config, event, lambda: cluster.cluster_id)
    return FrozenQueue(_around(candidates, near, matches, edge, nonce), matches, profile)


def _around(
    candidates: list[Candidate], near: list[Candidate], matches: Mapping[PostId, EventMatch],
    edge: float | None, nonce: str,
) -> LearnQueue:  # fmt: skip
    newest = [each.match.threshold for each in matches.values()][-1:]
    return LearnQueue([*candidates, *near], (newest or [edge or 0.0])[0], nonce)


Publish = Callable[[bytes, bytes | None], None]  # until the broker has acknowledged it


class AnswerLog:
    """The labels of one person on the posts of an event, and the way back, step by step."""

    def __init__(
        self, event: str, by: str, matches: Mapping[PostId, EventMatch], labels: Iterable[Label],
        publish: Publish,
    ) -> None:  # fmt: skip
        self._event, self._by = event, by
        self._matches, self._publish = matches, publish
        self._labels = {label.post_id: label for label in labels if label.by == by}
        self._given: list[tuple[Label, Label | None]] = []  # with what stood there before
        self._own: set[PostId] = set()  # answered here, or taken back: known better than elsewhere

    @property
    def count(self) -> int:
        """How many answers were given here and stand."""
        return len(self._given)

    @property
    def last(self) -> Label | None:
        """The answer that would be taken back."""
        return self._given[-1][0] if self._given else None

    def label_of(self, post_id: PostId) -> Label | None:
        """What this person says of a post."""
        return self._labels.get(post_id)

    def verdicts(self) -> dict[PostId, bool]:
        """Whether each post is on the event, by this person; safe while another answers."""
        return {name: label.label == "on" for name, label in self._labels.copy().items()}

    def merge(self, labels: Iterable[Label]) -> None:
        """Take over what this person has said elsewhere of posts that were not answered here."""
        theirs = {label.post_id: label for label in labels if label.by == self._by}
        self._labels |= {name: theirs[name] for name in theirs.keys() - self._own}

    def answer(self, question: Question, verdict: Verdict) -> Label:
        """Publish the answer to a question; it counts once the broker has it."""
        candidate = question.candidate
        matches = self._matches.get(candidate.post_id)
        seed_set, model = (
            (matches.record.seed_set, matches.record.model) if matches else (None, None)
        )
        label = Label(
            verdict, self._event, candidate.post, self._by, present(), question.drawn,
            question.probability, candidate.score, seed_set, model, question.queue,
        )  # fmt: skip
        self.replace(label)
        return label

    def replace(self, label: Label) -> None:
        """Publish a label in the place of what stands there."""
        self._publish(label.key, label.value)
        self._own.add(label.post_id)
        self._given.append((label, self._labels.get(label.post_id)))
        self._labels[label.post_id] = label

    def undo(self) -> Label:
        """Publish what stood there before the last answer, or that there was none."""
        label, before = self._given[-1]
        self._publish(label.key, None if before is None else before.value)
        self._given.pop()
        del self._labels[label.post_id]
        if before is not None:
            self._labels[label.post_id] = before
        return label
