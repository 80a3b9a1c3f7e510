"""The queues that are asked now: each frozen before its first question, and kept while it is."""

import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, wait
from secrets import token_hex
from threading import Lock
from typing import NamedTuple

from encoder.errors import InputError
from worker.actions.events.labelled import labels_of
from worker.actions.labels.answers import Answers
from worker.actions.labels.asking import Kind, frozen
from worker.actions.told import listening
from worker.config import Config
from worker.desk.hands import Hands
from worker.desk.judging.asked import Asked
from worker.desk.judging.outbox import LabelOutbox
from worker.errors import BrokerError
from worker.kafka.reading import connected

DAY_MS = 86_400_000  # of matches that are asked about, as `newsift labels ask` does
MOST_QUEUES = 32
MOST_POSTS = 60_000  # of all queues together; the one that was asked longest ago goes
DRAWS = 2  # queues that are frozen at once
MOST_DRAWS = 8  # with those that wait
WAIT_S = 1.0  # for one that is being frozen, before the page is told to ask again
IDLE_S = 12 * 3600.0  # after which a queue is another day's
EMPTY_S = 5.0  # after which one without a question is frozen again

Clock = Callable[[], float]
Version = Callable[[str], str | None]  # of an event's profile now; None where nobody knows


class Whose(NamedTuple):
    """Whose queue it is, of which event, and of which kind."""

    event: str
    by: str
    kind: Kind


class Kept(NamedTuple):
    """A queue that is asked, since when and when last, and why it took another's place."""

    asked: Asked
    since: float
    used: float
    why: str


class Judging:
    """Freezes queues, finds them again, and lets the oldest go; from several threads."""

    def __init__(self, config: Config, version: Version, clock: Clock = time.monotonic) -> None:
        self.outbox = LabelOutbox(config)
        self._config, self._version, self._clock = config, version, clock
        self._lock = Lock()
        self._kept: OrderedDict[Whose, Kept] = OrderedDict()
        self._draws: dict[Whose, tuple[Future[Asked], str]] = {}
        self._hands = Hands(DRAWS)
        self._nonce = token_hex(8)  # of matches that nobody has judged yet: one for all judges

    def stop(self) -> None:
        """Freeze nothing more, and close the way to the broker."""
        self._hands.shutdown()
        self.outbox.stop()

    def queue(self, whose: Whose) -> Kept | None:
        """The queue that somebody is asked; None while it is being frozen."""
        with self._lock:
            kept = self._kept.get(whose)
            why = self._ended(whose, kept)
            if kept is not None and why is None:
                return self._keep(whose, kept)
            draw, why = self._draw(whose, why or "")
        wait([draw], WAIT_S)
        if not draw.done():
            return None
        try:
            asked = draw.result()
        except BaseException:
            with self._lock:
                self._draws.pop(whose, None)
            raise
        with self._lock:
            if self._draws.pop(whose, None) is None and whose in self._kept:  # another was faster
                return self._kept[whose]
            return self._keep(whose, Kept(asked, self._clock(), 0.0, why))

    def of(self, whose: Whose, token: str) -> Asked:
        """The queue that a page names, or a refusal: its questions are asked no longer."""
        with self._lock:
            kept = self._kept.get(whose)
            if kept is None or kept.asked.token != token or self._ended(whose, kept) is not None:
                raise InputError(
                    "queue: is asked no longer, as another was begun or the desk was started again"
                )
            return self._keep(whose, kept).asked

    def begin_anew(self, whose: Whose, token: str) -> bool:
        """Let a queue go, so that the next question freezes another; False if it has gone."""
        with self._lock:
            kept = self._kept.get(whose)
            if kept is None or kept.asked.token != token:
                return False
            del self._kept[whose]
            return True

    def _ended(self, whose: Whose, kept: Kept | None) -> str | None:
        """Why a queue is asked no longer, if there is something to say; None while it is."""
        if kept is None:
            return ""
        version, now = self._version(whose.event), self._clock()
        if version is not None and version != kept.asked.version:
            return "the event's profile is another one now, which scores otherwise"
        if now - kept.used > IDLE_S:
            return "nobody answered for half a day; these are the matches of now"
        return "" if kept.asked.empty and now - kept.since > EMPTY_S else None

    def _keep(self, whose: Whose, kept: Kept) -> Kept:
        self._kept[whose] = kept = kept._replace(used=self._clock())
        self._kept.move_to_end(whose)
        while len(self._kept) > MOST_QUEUES or (self._posts() > MOST_POSTS and len(self._kept) > 1):
            self._kept.popitem(last=False)
        return kept

    def _posts(self) -> int:
        return sum(kept.asked.size for kept in self._kept.values())

    def _draw(self, whose: Whose, why: str) -> tuple[Future[Asked], str]:
        """Have a queue frozen, or find that it is under way."""
        self._kept.pop(whose, None)
        if whose not in self._draws:
            if len(self._draws) >= MOST_DRAWS:  # what is done and nobody came back for goes
                self._draws = {k: draw for k, draw in self._draws.items() if not draw[0].done()}
            if len(self._draws) >= MOST_DRAWS:
                raise BrokerError("too many queues are being frozen; try again in a while")
            self._draws[whose] = self._hands.submit(self._frozen, whose), why
        return self._draws[whose]

    def _frozen(self, whose: Whose) -> Asked:
        start = int(time.time() * 1000) - DAY_MS
        with listening() as told, connected(self._config) as cluster:
            known = labels_of(cluster, self._config, whose.event)
            asked = frozen(
                cluster, self._config, whose.event, whose.kind, start, known, self._nonce
            )
        answers = Answers(whose.event, whose.by, asked.found, known, self.outbox.publish)
        return Asked(asked, answers, told)
