"""Labelling in the browser: queues that are frozen when drawn, and labels being published.

A page names a post and a verdict and no more: how the post was drawn, and with which probability,
is known here alone. A question is answered once, however many tabs show it.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Container, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, NamedTuple

import msgspec

from encoder.errors import InputError
from newsift.desk.file_stream import PostFiles
from newsift.desk.mirrors import TopicMirrors
from newsift.desk.period import Period
from newsift.desk.post_fields import post_fields
from newsift.desk.threads import DaemonExecutor, lock_or_busy
from newsift.operations.counts import EventPosts, draw_count
from newsift.operations.deletions import has_content, without_content
from newsift.operations.labels import (
    AnswerLog,
    FrozenQueue,
    QueueKind,
    QueueRequest,
    any_nonce,
    freeze_any_queue,
    freeze_queue,
    label_headers,
    make_label_topic,
)
from newsift.operations.messages import capture
from newsift.operations.times import now_text
from newsift.statistics.count_draw import DEFAULT_COUNT_LABELS
from newsift.statistics.labels import Goal, Label, QueueName, Verdict
from newsift.statistics.queues import AnyQueue, CountQueue, Question, ScoredPost, chosen_goal
from worker.config import Config
from worker.kafka.reading import connected
from worker.kafka.sending import Outbox, sending
from worker.kafka.settings import broker_errors
from worker.match.records import MAX_WHY_TOKENS
from worker.posts.outcome import PostId

ANSWER_BUSY = "an earlier answer is still being published"
MAX_STOP_S = 1.0

MAX_QUEUES = 32
MAX_QUEUED_POSTS = 60_000
MAX_DRAWS = 2
MAX_CURVE_POINTS = 300
DRAW_WAIT_S = 1.0  # After it the page repeats its request.
MAX_IDLE_S = 12 * 3600.0
DRAWN_POSTS = 2_000  # of a file are held, and as many again with each thousand labels
EMPTY_QUEUE_S = 5.0  # A queue without a question is drawn again after this time.
Clock = Callable[[], float]
IsDeleted = Callable[[PostId], bool]
State = dict[str, Any]


class AnswerOutcome(NamedTuple):
    published: bool
    problem: str = ""  # empty also for the same answer again, which changes nothing
    other: Verdict | None = None  # the different answer that the post has


@dataclass(frozen=True, slots=True)
class DrawOrigin:
    """When, why and of what a queue was drawn."""

    profile_version: str = ""  # empty without one
    period: int = 0  # of a file: the pass over its posts
    replaced_because: str = ""  # empty if it replaced no other queue
    messages: Sequence[str] = ()  # warnings
    clock_s: float = 0.0  # when, by the clock of the queues
    goal: Goal | None = None  # what its labels are to prove, if they can


class LabelSession:
    """One judge's queue, for all tabs that show it. Thread-safe."""

    def __init__(
        self, frozen: FrozenQueue, answers: AnswerLog, origin: DrawOrigin = DrawOrigin(),
        is_deleted: IsDeleted = lambda _: False,
    ) -> None:  # fmt: skip
        self.origin, self._is_deleted = origin, is_deleted
        self.token, self.at = secrets.token_hex(8), now_text()
        self.used_at = origin.clock_s
        order = frozen.queue.order if isinstance(frozen.queue, AnyQueue) else None
        posts = frozen.matches if order is None else {post.post_id for post in order}
        self._posts: Container[PostId] = posts
        self.size, self.empty = len(posts), frozen.queue.next({}) is None
        self._matches, self._queue, self._answers = frozen.matches, frozen.queue, answers
        self._lock = Lock()

    def asks_about_deleted(self) -> bool:
        """Whether it still holds the content of the post that is next."""
        question = self._queue.next(self._answers.verdicts())
        if question is None or not has_content(question.candidate.post):
            return False
        return self._is_deleted(question.candidate.post_id)

    def is_outrun(self) -> bool:
        """Whether somebody has begun another draw for a count."""
        queue = self._queue
        return isinstance(queue, CountQueue) and queue.is_outrun(self._answers.of_all_judges())

    def _next(self, verdicts: Mapping[PostId, bool]) -> Question | None:
        """The content of a post that was deleted since the draw is neither shown nor stored."""
        question = self._queue.next(verdicts)
        if question is None or not self._is_deleted(question.candidate.post_id):
            return question
        asked = question.candidate
        bare = ScoredPost(without_content(asked.post), asked.score, asked.group)
        return replace(question, candidate=bare)

    def state(self) -> State:
        """The question, the next one for each answer, and the progress."""
        changes, verdicts = self._answers.changes, self._answers.verdicts()
        question, last = self._next(verdicts), self._answers.steps[-1:]
        label_count = sum(post_id in self._posts for post_id in verdicts)
        is_fixed = True  # whether no other posts may be drawn instead
        if isinstance(self._queue, CountQueue):
            label_count = len(verdicts)
            is_fixed = self._queue.is_begun(self._answers.of_all_judges())
        following = None
        if question is not None:
            post_id = question.candidate.post_id
            following = {
                answer: self._card(self._next({**verdicts, post_id: verdict}))
                for answer, verdict in (("on", True), ("off", False))
            }
        return {
            "queue": self.token, "at": self.at, "matches": self.size, "empty": self.empty,
            "goal": self.origin.goal, "messages": self.origin.messages, "is_fixed": is_fixed,
            "change": changes, "judged": label_count, "progress": self._queue.lines(verdicts),
            "question": self._card(question), "following": following,
            "left": self._queue.labels_left(verdicts),
            "shares": self._answers.shares()[-MAX_CURVE_POINTS:],
            "undo": {"step": last[0].change, "label": last[0].label.label} if last else None,
        }  # fmt: skip

    def answer(self, post_id: PostId, verdict: Verdict) -> AnswerOutcome:
        """A page repeats an answer that got no response."""
        with lock_or_busy(self._lock, ANSWER_BUSY):
            question = self._next(self._answers.verdicts())
            if question is not None and question.candidate.post_id == post_id:
                self._answers.answer(question, verdict)
                return AnswerOutcome(True)
        current = self._answers.label(post_id)
        if current is None:
            return AnswerOutcome(
                False, "the previous answer was undone, so this post will be asked again"
            )
        if current.label == verdict:
            return AnswerOutcome(False)
        return AnswerOutcome(False, f"{current.label!r} was answered meanwhile", current.label)

    def correct(self, post_id: PostId, verdict: Verdict) -> bool:
        """False if the label has this verdict already."""
        with lock_or_busy(self._lock, ANSWER_BUSY):
            current = self._answers.label(post_id)
            if current is None:
                raise InputError("post: you have not judged it; only your own answer can change")
            if current.label == verdict:
                return False
            self._answers.replace(msgspec.structs.replace(current, label=verdict, at=now_text()))
            return True

    def undo(self, step: int) -> bool:
        """Publishes the label before the last answer; False if that was done already."""
        with lock_or_busy(self._lock, ANSWER_BUSY):
            changes = [each.change for each in self._answers.steps]
            if step not in changes:
                return False
            if step != changes[-1]:
                raise InputError("undo: another tab has answered since; load the page again")
            self._answers.undo()
            return True

    def _card(self, question: Question | None) -> State | None:
        """Does not reveal how the post was drawn."""
        if question is None:
            return None
        candidate = question.candidate
        if question.drawn == "any":  # a score would tell whether it matches
            return post_fields(candidate.post) | {"score": None, "threshold": None, "why": ()}
        post, row = candidate.post, self._matches.get(candidate.post_id)
        return post_fields(post) | {
            "score": candidate.score,
            "threshold": row.threshold if row else None,
            "why": row.best.why[:MAX_WHY_TOKENS] if row and has_content(post) else (),
            "is_deleted": not has_content(post),
        }


class DeskLabels:
    """The mirror of the labels, and the way into it: through the topic."""

    def __init__(self, config: Config, mirrors: TopicMirrors) -> None:
        self._config, self._mirrors, self._lock = config, mirrors, Lock()
        self._connection = ExitStack()
        self._outbox: Outbox | None = None

    def event_labels(self, event: str) -> Sequence[Label]:
        return self._mirrors.labels.event_labels(event)

    def publish(self, key: bytes, value: bytes | None) -> None:
        """Returns once the mirror has the label; the first one creates the topic."""
        with lock_or_busy(self._lock, "earlier labels are still being published"):
            try:
                with broker_errors(self._config):
                    if self._outbox is None:
                        make_label_topic(self._config)
                        self._outbox = self._connection.enter_context(sending(self._config))
                    self._outbox.send(self._config.topics.labels, value, key, label_headers(key))
                    end = self._outbox.settle()
            except BaseException:
                self._close()
                raise
        self._mirrors.labels_follower.wait_until(end)

    def stop(self) -> None:
        has_lock = self._lock.acquire(timeout=MAX_STOP_S)
        self._close()
        if has_lock:
            self._lock.release()

    def _close(self) -> None:
        self._outbox = None
        self._connection.close()


class QueueKey(NamedTuple):
    event: str
    by: str
    kind: QueueKind
    goal: Goal | None = None  # None: as the newest labels were to prove
    labels: int = DEFAULT_COUNT_LABELS  # of a new draw for a count
    days: int = 1  # of a stream, whose matches such a draw is of


class LabelQueues:
    """Draws queues, and holds those used last. Thread-safe."""

    def __init__(
        self, config: Config, mirrors: TopicMirrors, executor: DaemonExecutor,
        period: Period, clock: Clock = time.monotonic, files: PostFiles | None = None,
    ) -> None:  # fmt: skip
        self._period, self._files = period, files
        self.labels = DeskLabels(config, mirrors)
        self._config, self._mirrors, self._executor = config, mirrors, executor
        self._clock, self._lock = clock, Lock()
        self._active: OrderedDict[QueueKey, LabelSession] = OrderedDict()
        self._draws: dict[QueueKey, Future[LabelSession]] = {}
        self._redraws = set[QueueKey]()  # for which another draw was asked
        self._nonce = secrets.token_hex(8)  # of matches without a label: the same for all judges

    def queue(self, key: QueueKey) -> LabelSession | None:
        """Returns None while matches are read, it or too many others are drawn."""
        is_settled = self._period.is_settled(self._mirrors.control.offset)
        if not (self._mirrors.has_matches() and is_settled):
            return None
        with self._lock:
            active = self._active.get(key)
            why = self._end_reason(key, active)
            if active is not None and why is None and active.asks_about_deleted():
                why = "the post that was asked about has been deleted"
            if active is not None and why is None:
                return self._activate(key, active)
            self._active.pop(key, None)
            if key not in self._draws:
                if len(self._draws) >= MAX_DRAWS:  # some may be done, of pages that were closed
                    self._draws = {k: draw for k, draw in self._draws.items() if not draw.done()}
                if len(self._draws) >= MAX_DRAWS:
                    return None
                is_another = key in self._redraws
                self._redraws.discard(key)
                self._draws[key] = self._executor.submit(self._draw, key, why or "", is_another)
            draw = self._draws[key]
        wait([draw], DRAW_WAIT_S)
        if not draw.done():
            return None
        with self._lock:
            is_first = self._draws.pop(key, None) is not None  # else another thread activated it
            session = draw.result()  # or what the draw raised
            if not is_first and key in self._active:
                return self._active[key]
            return self._activate(key, session)

    def session(self, key: QueueKey, token: str) -> LabelSession:
        """Raises if the queue has ended."""
        with self._lock:
            active = self._active.get(key)
            if active is None or active.token != token or self._end_reason(key, active) is not None:
                raise InputError(
                    "queue: has ended, as another was started or the desk restarted; load the page"
                )
            return self._activate(key, active)

    def discard(self, key: QueueKey, token: str) -> bool:
        """The next question comes from a new queue; False if this one has ended."""
        with self._lock:
            active = self._active.get(key)
            if active is None or active.token != token:
                return False
            del self._active[key]
            self._redraws.add(key)
            return True

    def _end_reason(self, key: QueueKey, active: LabelSession | None) -> str | None:
        """Empty if the page need not name it, None if the queue has not ended."""
        if active is None:
            return ""
        state, now, origin = self._mirrors.control, self._clock(), active.origin
        profile = state.profiles.get(key.event)
        if state.complete and (profile.version if profile else "") != origin.profile_version:
            return "the event's profile has changed, and scores differently"
        if origin.period != self._period.version:
            return "the articles or a threshold have changed, and all posts were matched again"
        labels = self._mirrors.labels.event_labels(key.event)
        if origin.goal and key.goal is None and origin.goal != chosen_goal(labels):
            return "the newest labels are to prove something else than these"
        if active.is_outrun():
            return "somebody has begun a draw for the count, which goes on here"
        if now - active.used_at > MAX_IDLE_S:
            return "nobody answered for half a day, so these are newer matches"
        return "" if active.empty and now - origin.clock_s > EMPTY_QUEUE_S else None

    def _activate(self, key: QueueKey, active: LabelSession) -> LabelSession:
        active.used_at = self._clock()
        self._active[key] = active
        self._active.move_to_end(key)
        while len(self._active) > 1 and (
            len(self._active) > MAX_QUEUES
            or sum(session.size for session in self._active.values()) > MAX_QUEUED_POSTS
        ):
            self._active.popitem(last=False)
        return active

    def _draw(self, key: QueueKey, replaced_because: str, redraw: bool) -> LabelSession:
        period, is_count = self._period.version, key.kind == "count"
        with capture() as messages, connected(self._config) as cluster:
            self._mirrors.catch_up(cluster)
            request = QueueRequest(
                key.event, key.by, key.kind, self._period.days_since(key.days),
                secrets.token_hex(8) if is_count else self._nonce, key.labels,
                is_file=self._period.is_file, goal=key.goal, redraw=redraw,
            )  # fmt: skip
            labels = self._mirrors.labels.event_labels(key.event)
            profile = self._mirrors.control.profiles.get(key.event)
            if is_count:
                file = self._period.matched_file(self._config.topics.matches)
                source = EventPosts(cluster, self._config, key.event, file)
                frozen = draw_count(source, request, labels)
            elif key.kind == "any":
                frozen = self._any_queue(key.event, labels)
            else:
                rows = self._mirrors.matches.draw_rows(key.event)
                frozen = freeze_queue(cluster, self._config, request, rows, labels, profile)
        answers = AnswerLog(key.event, key.by, frozen, self.labels)
        version = profile.version if profile else ""
        goal = key.goal or chosen_goal(labels) if key.kind == "certify" else None
        origin = DrawOrigin(version, period, replaced_because, tuple(messages), self._clock(), goal)
        return LabelSession(frozen, answers, origin, self._mirrors.matches.is_deleted)

    def _any_queue(self, event: str, labels: Sequence[Label]) -> FrozenQueue:
        if self._files is None:
            raise InputError("any: posts that do not match are kept of a file alone; judge matches")
        matches = self._mirrors.matches
        if matches.counts(event).left_out:
            raise InputError("any: not all matches are held; raise the event's threshold")
        nonce = any_nonce(labels, self._nonce)
        most = DRAWN_POSTS * (1 + 2 * len(labels) // DRAWN_POSTS)
        posts, total = self._files.draw(nonce, most)
        rows = [row for story in matches.stories(event) for row in story.rows]
        return freeze_any_queue(posts, total, rows, QueueName(nonce, now_text()))
