"""Judging in the browser: queues that are frozen while somebody is asked, and labels on their way.

The page names a post and a verdict and no more: how a post was drawn, and with which probability,
is known here alone. A question is answered once, however many tabs show it.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack
from itertools import count
from secrets import token_hex
from threading import Lock
from typing import Any, NamedTuple

import msgspec

from encoder.errors import InputError
from newsift.desk.mirrors import TopicMirrors
from newsift.desk.threads import DaemonExecutor, lock_or_busy
from newsift.operations.labels import (
    HEADERS,
    AnswerLog,
    FrozenQueue,
    QueueKind,
    freeze_queue,
    make_label_topic,
)
from newsift.operations.messages import capture
from newsift.operations.times import now_ms, present
from newsift.statistics.labels import Label, Verdict
from newsift.statistics.queues import Question
from worker.config import Config
from worker.errors import BrokerError
from worker.kafka.reading import connected
from worker.kafka.sending import Outbox, sending
from worker.kafka.settings import speaking
from worker.match.records import WHY_TOKENS
from worker.posts.outcome import Post, PostId

MOST = {"text": 50_000, "url": 2_000, "author": 200, "created_at": 40, "lang": 40}  # characters
ON_ITS_WAY = "an answer before this one is still on its way"

State = dict[str, Any]
STOP_S = 1.0  # for a label on its way, when the desk ends
DAY_MS = 86_400_000  # of matches that are asked about, as `newsift labels ask` does
MOST_QUEUES = 32
MOST_POSTS = 60_000  # of all queues together; the one that was asked longest ago goes
DRAWS = 2  # queues that are frozen at once
MOST_DRAWS = 8  # with those that wait
WAIT_S = 1.0  # for one that is being frozen, before the page is told to ask again
IDLE_S = 12 * 3600.0  # after which a queue is another day's
EMPTY_S = 5.0  # after which one without a question is frozen again
Clock = Callable[[], float]


class LabelSession:
    """One person's queue, for all tabs in which he is asked; from several threads."""

    def __init__(
        self, frozen: FrozenQueue, answers: AnswerLog, messages: Sequence[str] = ()
    ) -> None:
        """`told` is what was said while it was frozen."""
        self.token, self.at = secrets.token_hex(8), present()
        self.size, self.empty = len(frozen.matches), frozen.queue.next({}) is None
        self._frozen, self._answers, self._messages = frozen, answers, tuple(messages)
        self._queue, self._turn = frozen.queue, Lock()
        self._numbers = count(1)
        self._steps: list[int] = []  # of the answers that stand, as the page names them
        self._changes = 0

    @property
    def version(self) -> str:
        """The profile's, when this was frozen; empty without one."""
        return self._frozen.profile.version if self._frozen.profile else ""

    def merge(self, labels: Iterable[Label]) -> None:
        """Take over what the same person has said elsewhere."""
        self._answers.merge(labels)

    def state(self) -> State:
        """The question now and the one after each answer, how far it is, and what z takes back."""
        changes, answered = self._changes, self._answers.verdicts()
        question, last = self._queue.next(answered), self._answers.last
        steps, judged = self._steps.copy(), sum(name in self._frozen.matches for name in answered)
        return {
            "queue": self.token, "at": self.at, "matches": self.size, "empty": self.empty,
            "told": self._messages,
            "turn": changes, "judged": judged, "progress": self._queue.summary(answered),
            "question": self._card(question), "then": self._then(question, answered),
            "left": self._queue.left(answered),
            "undo": None if last is None or not steps else {"step": steps[-1], "label": last.label},
        }  # fmt: skip

    def answer(self, post_id: PostId, verdict: Verdict) -> str | None:
        """Publish an answer to the question now; else say why not, empty where it stands already.

        The same answer again changes nothing, as a page may ask twice whether it was heard.
        """
        with lock_or_busy(self._turn, ON_ITS_WAY):
            question = self._queue.next(self._answers.verdicts())
            if question is not None and question.candidate.post_id == post_id:
                self._answers.answer(question, verdict)
                self._count_step()
                return None
        current = self._answers.label_of(post_id)
        if current is None:
            return "the answer before it was taken back: the post comes again"
        return "" if current.label == verdict else f"{current.label!r} was answered meanwhile"

    def correct(self, post_id: PostId, verdict: Verdict) -> bool:
        """Publish another verdict on a post that this person has judged, drawn as it was.

        False where it stands already.
        """
        with lock_or_busy(self._turn, ON_ITS_WAY):
            current = self._answers.label_of(post_id)
            if current is None:
                raise InputError("post: you have not judged it; only your own answer can change")
            if current.label == verdict:
                return False
            self._answers.replace(msgspec.structs.replace(current, label=verdict, at=present()))
            self._count_step()
            return True

    def undo(self, step: int) -> bool:
        """Publish what stood before the last answer; False where that was done before."""
        with lock_or_busy(self._turn, ON_ITS_WAY):
            if step not in self._steps:
                return False
            if step != self._steps[-1]:
                raise InputError("undo: something was answered since, in another tab; look again")
            self._answers.undo()
            self._steps.pop()
            self._changes += 1
            return True

    def _count_step(self) -> None:
        self._steps.append(next(self._numbers))
        self._changes += 1

    def _then(self, question: Question | None, answered: dict[PostId, bool]) -> State | None:
        if question is None:
            return None
        name = question.candidate.post_id
        return {
            "on": self._card(self._queue.next(answered | {name: True})),
            "off": self._card(self._queue.next(answered | {name: False})),
        }

    def _card(self, question: Question | None) -> State | None:
        """A post as somebody is to see it, without how it was drawn."""
        if question is None:
            return None
        candidate = question.candidate
        match = self._frozen.matches.get(candidate.post_id)
        return bounded_post(candidate.post) | {
            "score": candidate.score,
            "threshold": match.match.threshold if match else None,
            "why": match.match.why[:WHY_TOKENS] if match else (),
        }


def bounded_post(post: Post) -> State:
    """A post as the page gets it: whoever may write to the topic bounds nothing but its name."""
    fields = msgspec.to_builtins(post)
    return {name: text[: MOST.get(name, len(text))] for name, text in fields.items()}


class LabelOutbox:
    """Publishes one label after the other; makes the topic with the first, as the commands do."""

    def __init__(self, config: Config) -> None:
        self._config, self._turn = config, Lock()
        self._open = ExitStack()
        self._outbox: Outbox | None = None

    def publish(self, key: bytes, value: bytes | None) -> None:
        """Publish a label, and wait until the broker has acknowledged it."""
        with lock_or_busy(self._turn, "labels before this one are still on their way"):
            try:
                with speaking(self._config):
                    outbox = self._opened()
                    outbox.send(self._config.topics.labels, value, key, HEADERS)
                    outbox.settle()
            except BaseException:
                self._close()
                raise

    def stop(self) -> None:
        """Close the connection, soon even to a broker that is away; harmless if there is none."""
        held = self._turn.acquire(timeout=STOP_S)
        self._close()
        if held:
            self._turn.release()

    def _opened(self) -> Outbox:
        if self._outbox is None:
            make_label_topic(self._config)
            self._outbox = self._open.enter_context(sending(self._config))
        return self._outbox

    def _close(self) -> None:
        self._outbox = None
        self._open.close()


class QueueKey(NamedTuple):
    """Whose queue it is, of which event, and of which kind."""

    event: str
    by: str
    kind: QueueKind


class ActiveQueue(NamedTuple):
    """A queue that is asked, since when and when last, and why it took another's place."""

    session: LabelSession
    since: float
    used: float
    why: str


class LabelQueues:
    """Freezes queues, finds them again, and lets the oldest go; from several threads."""

    def __init__(
        self, config: Config, mirrors: TopicMirrors, clock: Clock = time.monotonic
    ) -> None:
        self.outbox = LabelOutbox(config)
        self._config, self._mirrors, self._clock = config, mirrors, clock
        self._lock = Lock()
        self._active: OrderedDict[QueueKey, ActiveQueue] = OrderedDict()
        self._draws: dict[QueueKey, tuple[Future[LabelSession], str]] = {}
        self._hands = DaemonExecutor(DRAWS)
        self._nonce = token_hex(8)  # of matches that nobody has judged yet: one for all judges

    def stop(self) -> None:
        """Freeze nothing more, and close the way to the broker."""
        self._hands.shutdown()
        self.outbox.stop()

    def queue(self, key: QueueKey) -> ActiveQueue | None:
        """The queue that somebody is asked; None while it is being frozen."""
        with self._lock:
            active = self._active.get(key)
            why = self._ended(key, active)
            if active is not None and why is None:
                return self._activate(key, active)
            draw, why = self._draw(key, why or "")
        wait([draw], WAIT_S)
        if not draw.done():
            return None
        try:
            session = draw.result()
        except BaseException:
            with self._lock:
                self._draws.pop(key, None)
            raise
        with self._lock:
            if self._draws.pop(key, None) is None and key in self._active:  # another was faster
                return self._active[key]
            return self._activate(key, ActiveQueue(session, self._clock(), 0.0, why))

    def of(self, key: QueueKey, token: str) -> LabelSession:
        """The queue that a page names, or a refusal: its questions are asked no longer."""
        with self._lock:
            active = self._active.get(key)
            if (
                active is None
                or active.session.token != token
                or self._ended(key, active) is not None
            ):
                raise InputError(
                    "queue: is asked no longer, as another was begun or the desk was started again"
                )
            return self._activate(key, active).session

    def begin_anew(self, key: QueueKey, token: str) -> bool:
        """Let a queue go, so that the next question freezes another; False if it has gone."""
        with self._lock:
            active = self._active.get(key)
            if active is None or active.session.token != token:
                return False
            del self._active[key]
            return True

    def _ended(self, key: QueueKey, active: ActiveQueue | None) -> str | None:
        """Why a queue is asked no longer, if there is something to say; None while it is."""
        if active is None:
            return ""
        state, now = self._mirrors.control, self._clock()
        profile = state.profiles.get(key.event)
        if state.complete and (profile.version if profile else "") != active.session.version:
            return "the event's profile is another one now, which scores otherwise"
        if now - active.used > IDLE_S:
            return "nobody answered for half a day; these are the matches of now"
        return "" if active.session.empty and now - active.since > EMPTY_S else None

    def _activate(self, key: QueueKey, active: ActiveQueue) -> ActiveQueue:
        self._active[key] = active = active._replace(used=self._clock())
        self._active.move_to_end(key)
        while len(self._active) > MOST_QUEUES or (
            self._posts() > MOST_POSTS and len(self._active) > 1
        ):
            self._active.popitem(last=False)
        return active

    def _posts(self) -> int:
        return sum(active.session.size for active in self._active.values())

    def _draw(self, key: QueueKey, why: str) -> tuple[Future[LabelSession], str]:
        """Have a queue frozen, or find that it is under way."""
        self._active.pop(key, None)
        if key not in self._draws:
            if len(self._draws) >= MOST_DRAWS:  # what is done and nobody came back for goes
                self._draws = {k: draw for k, draw in self._draws.items() if not draw[0].done()}
            if len(self._draws) >= MOST_DRAWS:
                raise BrokerError("too many queues are being frozen; try again in a while")
            self._draws[key] = self._hands.submit(self._frozen, key), why
        return self._draws[key]

    def _frozen(self, key: QueueKey) -> LabelSession:
        start = now_ms() - DAY_MS
        with capture() as messages, connected(self._config) as cluster:
            self._mirrors.catch_up(cluster)
            labels = self._mirrors.labels.of(key.event)
            profile = self._mirrors.control.profiles.get(key.event)
            frozen_queue = freeze_queue(
                cluster, self._config, key.event, key.kind, start, labels, profile, self._nonce
            )
        answers = AnswerLog(key.event, key.by, frozen_queue.matches, labels, self.outbox.publish)
        return LabelSession(frozen_queue, answers, messages)
