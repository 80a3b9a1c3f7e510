"""The labels topic, and label queues made of an event's matches and near misses."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from math import isnan, nan
from typing import Literal, NamedTuple, Protocol
from urllib.parse import quote

import msgspec
from msgspec import structs

from encoder.errors import InputError
from newsift.operations.deletions import DeletedPosts, read_deletions, without_content
from newsift.operations.events import PromiseTarget, next_test
from newsift.operations.keyed_topic import KeyedTopic
from newsift.operations.matches import MatchRow, newest_profile
from newsift.operations.messages import notify
from newsift.operations.times import now_ms, now_text
from newsift.operations.workers import (
    ANSWER_ERRORS,
    ask_worker,
    worker_addresses,
)
from newsift.statistics.count_draw import DEFAULT_COUNT_LABELS
from newsift.statistics.labels import (
    MAX_LABELS_BYTES,
    NOTE_SCHEMA,
    SCHEMA,
    Goal,
    Label,
    LabelReducer,
    LabelState,
    QueueName,
    Verdict,
    names_in_key,
)
from newsift.statistics.queues import (
    AnyQueue,
    Candidate,
    CertifyQueue,
    LearnQueue,
    Question,
    Queue,
    ScoredPost,
    chosen_goal,
    current_queue,
)
from worker.config import Config
from worker.kafka.reading import TopicReader, connected
from worker.kafka.sending import Headers
from worker.kafka.topics import ensure_labels
from worker.match.near import NearAnswer, merge_strata
from worker.metrics.address_file import WorkerAddress
from worker.posts.outcome import Post, PostId
from worker.posts.times import HOUR_MS, milliseconds, rfc3339, utc
from worker.seeds.profile import Profile
from worker.text import plural

MAX_REFUSED_SHOWN = 10
NEAR_ANSWER_S = 5.0
MAX_PAUSE_MS = 12 * HOUR_MS  # after which newer matches are drawn
REMEDY = "desk.workers names the workers"
NO_CANDIDATES = {
    "certify": "no matches", "learn": "no matches and no near misses", "count": "no matches",
    "any": "no posts",
}  # fmt: skip

QueueKind = Literal["certify", "learn", "count", "any"]


def label_headers(key: bytes) -> Headers:
    schema = NOTE_SCHEMA if len(names_in_key(key)) == 1 else SCHEMA
    return (("schema", schema.encode()),)


class LabelTopic(KeyedTopic[LabelState]):
    def __init__(self, cluster: TopicReader, config: Config) -> None:
        topic = config.topics.labels
        reducer = partial(LabelReducer, config.limits)
        super().__init__(cluster, config, topic, "label", label_headers, reducer)

    def state(self) -> LabelState:
        """Also reports labels that cannot be used."""
        state = super().state()
        for refusal in state.refused[:MAX_REFUSED_SHOWN]:
            notify(f"refused: {refusal.key}: {refusal.reason}")
        if (more := len(state.refused) - MAX_REFUSED_SHOWN) > 0:
            notify(f"more refused labels: {more:,}")
        if state.left_out:
            notify(
                f"{state.left_out:,} labels are left out: all may take {MAX_LABELS_BYTES:,} bytes; "
                "name another topic in topics.labels"
            )
        return state


def make_label_topic(config: Config) -> None:
    """Reports settings by which labels may be lost."""
    for difference in ensure_labels(config):
        if difference.serious:
            state = f"{difference.setting} is {difference.actual}, must be {difference.required}"
            notify(f"{difference.topic}: {state}: {difference.why}; see `newsift topics check`")


@contextmanager
def label_topic(config: Config) -> Iterator[LabelTopic]:
    """Makes the topic if it is missing."""
    make_label_topic(config)
    with connected(config) as cluster:
        cluster.partitions(config.topics.labels)
        yield LabelTopic(cluster, config)


def without_deleted(label: Label, deleted: DeletedPosts) -> Label:
    """Without the content of a post that was deleted."""
    if label.post_id not in deleted:
        return label
    return msgspec.structs.replace(label, post=without_content(label.post))


def stored_labels(cluster: TopicReader, config: Config) -> LabelState:
    """Without labels if the topic is missing: the first one makes it."""
    if not cluster.exists(config.topics.labels):
        return LabelReducer(config.limits).snapshot()
    return LabelTopic(cluster, config).state()


def read_event_labels(cluster: TopicReader, config: Config, event: str) -> tuple[Label, ...]:
    return stored_labels(cluster, config).event_labels(event)


def request_near_answers(
    config: Config, event: str, cluster_id: Callable[[], str]
) -> list[NearAnswer]:
    """Reports workers that do not answer."""
    workers = worker_addresses(config, cluster_id)
    if not workers:
        notify(f"no worker of yours on this machine answers: no near misses; {REMEDY}")
    answers = (_request_near_misses(worker, event) for worker in workers)
    return [answer for answer in answers if answer]


def _request_near_misses(worker: WorkerAddress, event: str) -> NearAnswer | None:
    try:
        status, body = ask_worker(worker, f"/near?event={quote(event, safe='')}", NEAR_ANSWER_S)
        if status == 200:
            return msgspec.json.decode(body, type=NearAnswer)
        why = "it keeps none of this event" if status == 404 else f"HTTP {status}"
    except ANSWER_ERRORS as error:
        why = type(error).__name__
    notify(f"worker {worker.address}: returns no near misses ({why}); {REMEDY}")
    return None


def merge_near_candidates(answers: Sequence[NearAnswer]) -> list[ScoredPost]:
    """Stratum by stratum."""
    strata = zip(*(answer.strata for answer in answers), strict=False)
    return [
        ScoredPost(near.post, near.score) for parts in strata for near in merge_strata(parts).kept
    ]


@dataclass(frozen=True, slots=True)
class FrozenQueue:
    queue: Queue
    matches: Mapping[PostId, MatchRow]
    scored_by: tuple[str | None, str | None] = None, None  # seed set and model of near misses


@dataclass(frozen=True, slots=True)
class QueueRequest:
    """A judge's queue of the event's matches since `start`, in milliseconds.

    The nonce keys the order, unless labels of these matches were drawn by another one.
    """

    event: str
    by: str
    kind: QueueKind
    start: int
    nonce: str
    labels: int = DEFAULT_COUNT_LABELS  # of a new draw for a count
    is_file: bool = False  # of which no more matches come
    goal: Goal | None = None  # None: as the newest labels were to prove
    redraw: bool = False  # of all matches, though the newest draw still continues


def freeze_queue(
    cluster: TopicReader, config: Config, request: QueueRequest, rows: Sequence[MatchRow],
    labels: Sequence[Label], profile: Profile | None,
) -> FrozenQueue:  # fmt: skip
    """The queue of these matches, without deleted posts that the judge has not answered.

    A promise is of one profile: matches of another one than the newest, or of the seeds, are left
    out. Near misses are asked of the workers.
    """
    newest = newest_profile(rows)
    matches = [row for row in rows if row.profile == newest]
    if left := len(rows) - len(matches):
        notify(f"matches left out: {left:,}, by other seeds or another profile than the newest")
    current = current_queue(labels, {row.post_id for row in matches}, newest[1])
    if request.kind == "certify":
        return _freeze_draw(request, matches, current, labels, profile)
    answers = request_near_answers(config, request.event, lambda: cluster.cluster_id)
    thresholds = [row.threshold for row in matches][-1:]
    thresholds += [answer.threshold for answer in answers if answer.edges]
    deleted = read_deletions(cluster, config)
    near = [post for post in merge_near_candidates(answers) if post.post_id not in deleted]
    candidates: list[Candidate] = [*_still_asked(matches, request, labels), *near]
    nonce = current.nonce if current else request.nonce
    queue = LearnQueue(candidates, (thresholds or [0.0])[0], nonce)
    return FrozenQueue(queue, {row.post_id: row for row in matches})


def _freeze_draw(
    request: QueueRequest, matches: Sequence[MatchRow], current: QueueName | None,
    labels: Sequence[Label], profile: Profile | None,
) -> FrozenQueue:  # fmt: skip
    """A draw that was begun continues: another one is another test."""
    goal = request.goal or chosen_goal(labels)
    if current is not None and is_continued(current, labels, request):
        draw, drawn = structs.replace(current, goal=goal), rows_of_draw(matches, current)
    else:
        drawn = [row for row in matches if row.stored >= request.start]
        times = [row.came for row in drawn] or [0]
        draw = QueueName(current.nonce if current else request.nonce, rfc3339(max(times)), goal)
        if drawn and (version := drawn[0].profile[1]):
            since, test = rfc3339(min(times)), next_test(profile, labels)
            draw = structs.replace(draw, since=since, profile=version, test=test)
    target = PromiseTarget.of_draw(draw, profile, labels, goal)
    proven = target.promised_from(profile) if request.is_file else None
    candidates = _still_asked(drawn, request, labels)
    queue = CertifyQueue(candidates, target.precision, target.test_confidence, draw, proven)
    if target.test > 1:
        least = plural(queue.plan().at_best, "label")
        notify(f"draw {target.test:,} of this event: a promise takes {least} at best")
    return FrozenQueue(queue, {row.post_id: row for row in drawn})


def _still_asked(
    rows: Iterable[MatchRow], request: QueueRequest, labels: Iterable[Label]
) -> list[MatchRow]:
    """Without the deleted posts that the judge has not answered; what was given proves nothing."""
    answered = {
        label.post_id for label in labels
        if label.by == request.by and not (request.kind == "certify" and label.drawn == "given")
    }  # fmt: skip
    return [row for row in rows if not row.is_deleted or row.post_id in answered]


def is_continued(draw: QueueName, labels: Iterable[Label], request: QueueRequest) -> bool:
    """Whether a draw continues: for half a day after its last label, in a file always."""
    if not draw.test or request.is_file:
        return bool(draw.test)
    times = (
        milliseconds(utc(label.at)) for label in labels
        if label.queue and label.queue.test == draw.test
    )  # fmt: skip
    return not request.redraw and max(times, default=0) > now_ms() - MAX_PAUSE_MS


def draw_start(labels: Iterable[Label], profile: str) -> int | None:
    """When the oldest match of the newest draw of this version's matches came."""
    named = (label.queue for label in labels if label.queue and label.queue.profile == profile)
    newest = max(named, key=lambda draw: draw.test or 0, default=None)
    return milliseconds(utc(newest.since)) if newest and newest.since else None


def rows_of_draw(rows: Iterable[MatchRow], draw: QueueName | None) -> list[MatchRow]:
    """The matches that a draw was made of, as far as they are still there."""
    if draw is None:
        return [*rows]
    since = milliseconds(utc(draw.since)) if draw.since else 0
    until = milliseconds(utc(draw.until))
    return [row for row in rows if since <= row.came <= until]


def freeze_any_queue(
    posts: Sequence[Post], total: int, rows: Sequence[MatchRow], name: QueueName
) -> FrozenQueue:
    """The first posts of a file in the order of a draw, of `total`; `rows` are all its matches."""
    matches = {row.post_id: row for row in rows}
    unscored = (ScoredPost(post, nan) for post in posts)
    order = [matches.get(post.post_id, post) for post in unscored]
    return FrozenQueue(AnyQueue(order, total, matches, name), matches)


def any_nonce(labels: Iterable[Label], default: str) -> str:
    """Of the first label that was drawn from all posts, so that everybody reads in one order."""
    drawn = [label for label in labels if label.drawn == "any" and label.queue]
    first = min(drawn, key=lambda label: (milliseconds(utc(label.at)), label.key), default=None)
    return first.queue.nonce if first and first.queue else default


class Labels(Protocol):
    """Where answers go, and come from."""

    def event_labels(self, event: str) -> Sequence[Label]: ...

    def publish(self, key: bytes, value: bytes | None) -> None:
        """Returns once the broker has the record, and `event_labels` what it says."""


class Step(NamedTuple):
    """A label that was given, the one that it replaced, and the number of this change."""

    change: int
    label: Label
    before: Label | None


class AnswerLog:
    """The labels of one person on the posts of an event, and undo.

    The queue asks again about posts whose label it does not accept; undo brings that label back.
    """

    def __init__(self, event: str, by: str, frozen: FrozenQueue, labels: Labels) -> None:
        self._event, self._by, self._labels = event, by, labels
        self._matches, self._scored_by = frozen.matches, frozen.scored_by
        self._accepts = frozen.queue.accepts
        self.steps: list[Step] = []  # that can be undone
        self.changes = 0  # answers, and those undone

    def of_all_judges(self) -> Sequence[Label]:
        return self._labels.event_labels(self._event)

    def label(self, post_id: PostId) -> Label | None:
        return self._accepted().get(post_id)

    def verdicts(self) -> dict[PostId, bool]:
        return {name: label.label == "on" for name, label in self._accepted().items()}

    def shares(self) -> list[float]:
        """The share on the event after each label."""
        by_time = sorted(self._accepted().values(), key=lambda label: label.at)
        on = accumulate(label.label == "on" for label in by_time)
        return [count / number for number, count in enumerate(on, 1)]

    def _own(self) -> dict[PostId, Label]:
        return {label.post_id: label for label in self.of_all_judges() if label.by == self._by}

    def _accepted(self) -> dict[PostId, Label]:
        return {name: label for name, label in self._own().items() if self._accepts(label)}

    def answer(self, question: Question, verdict: Verdict) -> Label:
        """Raises if the label is published, and cannot be used."""
        candidate = question.candidate
        row = self._matches.get(candidate.post_id)
        seed_set, model = row.scored_by if row else self._scored_by
        label = Label(
            label=verdict,
            event=self._event,
            post=candidate.post,
            by=self._by,
            at=now_text(),
            drawn=question.drawn,
            probability=question.probability,
            score=None if isnan(candidate.score) else candidate.score,
            seed_set=seed_set,
            model=model,
            queue=question.queue,
            count=question.count,
        )
        self.replace(label)
        if label.post_id not in self._accepted():
            raise InputError(
                "label: is published, but refused or without room; see newsift labels list"
            )
        return label

    def replace(self, label: Label) -> None:
        before = self._own().get(label.post_id)
        self._labels.publish(label.key, label.value)
        self.steps.append(Step(self.changes + 1, label, before))
        self.changes += 1

    def undo(self) -> None:
        """Publishes the label before the last answer, or its deletion."""
        _, label, before = self.steps[-1]
        self._labels.publish(label.key, None if before is None else before.value)
        self.steps.pop()
        self.changes += 1
