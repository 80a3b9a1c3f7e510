"""What an event would learn now: one lesson at a time, in a thread of its own, as it takes long."""

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from threading import Lock, Thread

from encoder.errors import InputError, NewsiftError
from worker.actions.events.event import NONE, KnownEvent, the_event
from worker.actions.events.learning import (
    Learning,
    School,
    comment,
    go_back,
    read_events,
    refuse_promised,
    unsafe,
)
from worker.actions.events.lesson import Proposal
from worker.actions.events.teacher import Teacher
from worker.actions.seeds.topic import SeedTopic
from worker.actions.told import listening
from worker.actions.who import acting
from worker.config import Config
from worker.kafka.reading import connected

Topic = Callable[[], AbstractContextManager[SeedTopic]]
log = logging.getLogger("newsift.desk")


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """A lesson: under way until it has a proposal, or was refused."""

    learning: Learning
    by: str
    began: float  # by the monotonic clock
    ended: float | None = None
    proposal: Proposal | None = None
    danger: str = ""  # why nobody should publish it without a look
    told: tuple[str, ...] = ()
    refused: str = ""

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return (time.monotonic() if self.ended is None else self.ended) - self.began


class Lessons:
    """The last lesson, and what may be done with it."""

    def __init__(
        self, config: Config, model: Callable[[], Teacher], topic: Topic, moved: Callable[[], None]
    ) -> None:
        """`model` waits for the model, `topic` for its turn; `moved`: a lesson has ended."""
        self._config, self._model, self._topic, self._moved = config, model, topic, moved
        self._lock = Lock()
        self._last: Lesson | None = None

    def of(self, event: str) -> Lesson | None:
        """The last lesson, if it was of this event."""
        last = self._last
        return last if last is not None and last.learning.name == event else None

    @property
    def under_way(self) -> str | None:
        """The event that learns now."""
        last = self._last
        return last.learning.name if last is not None and last.ended is None else None

    def begin(self, learning: Learning, by: str) -> None:
        """Begin a lesson, which goes on when this is back."""
        with self._lock:
            if busy := self.under_way:
                raise InputError(f"event {busy!r} learns now; one at a time, wait until it is done")
            self._last = begun = Lesson(learning, by, time.monotonic())
        Thread(target=self._run, args=(begun,), name="desk-lesson", daemon=True).start()

    def publish(self, event: str, version: str) -> KnownEvent:
        """Give an event the profile that the last lesson proposed; how the event is then."""
        lesson, proposal = self._proposed(event, version)
        teacher = self._model()
        with self._topic() as topic:
            now = the_event(read_events(topic, teacher)[0], event)
            refuse_promised(now)
            if (now.profile, now.seeds) != (proposal.event.profile, proposal.event.seeds):
                raise InputError(f"event {event!r}: is not what it was at the lesson; learn anew")
            School(topic.cluster, teacher, Learning(event, None, False)).publish(proposal)
            found = read_events(topic, teacher)[0].get(event, now)
        with self._lock:
            if self._last is lesson:  # no other was begun meanwhile
                self._last = None
        return found

    def forget(self, event: str, version: str) -> KnownEvent:
        """Go back from this version of an event's profile to the one before, or to its seeds."""
        teacher = self._model()
        with self._topic() as topic:
            now = the_event(read_events(topic, teacher)[0], event)
            if (now.profile.version if now.profile else "") != version:
                raise InputError(f"event {event!r}: its profile is another one by now; look again")
            if now.state == NONE:
                raise InputError(f"event {event!r}: has no profile, its seeds serve")
            return go_back(topic, teacher, now)

    def _proposed(self, event: str, version: str) -> tuple[Lesson | None, Proposal]:
        lesson = self.of(event)
        proposal = lesson.proposal if lesson else None
        if proposal is None or proposal.profile.version != version:
            raise InputError(f"event {event!r}: this was not proposed last; let it learn anew")
        if not proposal.is_news:
            raise InputError("nothing new: the profile stays as it is")
        return lesson, proposal

    def _run(self, begun: Lesson) -> None:
        with listening() as told, acting(begun.by):
            done = self._learned(begun)
        self._last = replace(done, ended=time.monotonic(), told=tuple(told))
        self._moved()

    def _learned(self, begun: Lesson) -> Lesson:
        try:
            teacher = self._model()
            with connected(self._config) as cluster:
                proposal = School(cluster, teacher, begun.learning).propose()
            comment(proposal)
            danger = unsafe(proposal) if begun.learning.span else ""  # without a stream: as it is
            return replace(begun, proposal=proposal, danger=danger)
        except NewsiftError as error:
            return replace(begun, refused=str(error))
        except Exception as error:  # the page is told, and the desk goes on
            log.exception("a lesson failed")
            return replace(begun, refused=f"{type(error).__name__}: {error}")
