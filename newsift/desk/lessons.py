"""What an event would learn now: one lesson at a time, in a thread of its own, as it takes long."""

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from threading import Lock, Thread

from encoder.errors import InputError, NewsiftError
from newsift.desk.mirrors import TopicMirrors
from newsift.desk.model import ControlView, Model
from newsift.operations.actor import acting_as
from newsift.operations.events import NONE, EventState, require_event
from newsift.operations.messages import capture, notify
from newsift.operations.profile_training import (
    LearnOptions,
    ProfileTraining,
    Proposal,
    previous_profile,
    publication_risk,
    refuse_promised,
    report_stream,
)
from newsift.operations.seed_topic import SeedTopic
from worker.config import Config
from worker.kafka.reading import connected

Topic = Callable[[], AbstractContextManager[SeedTopic]]
log = logging.getLogger("newsift.desk")


@dataclass(frozen=True, slots=True, eq=False)
class LessonRun:
    """A lesson: under way until it has a proposal, or was refused."""

    learning: LearnOptions
    by: str
    began: float  # by the monotonic clock
    ended: float | None = None
    proposal: Proposal | None = None
    danger: str = ""  # why nobody should publish it without a look
    messages: tuple[str, ...] = ()
    refused: str = ""

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return (time.monotonic() if self.ended is None else self.ended) - self.began


class Lessons:
    """The last lesson, and what may be done with it."""

    def __init__(
        self, config: Config, model: Model, mirrors: TopicMirrors, topic: Topic,
        moved: Callable[[], None],
    ) -> None:  # fmt: skip
        """`topic` waits for its turn; `moved` is called when a lesson has ended."""
        self._config, self._model, self._mirrors = config, model, mirrors
        self._topic, self._moved = topic, moved
        self._lock = Lock()
        self._last: LessonRun | None = None

    def of(self, event: str) -> LessonRun | None:
        """The last lesson, if it was of this event."""
        last = self._last
        return last if last is not None and last.learning.name == event else None

    @property
    def under_way(self) -> str | None:
        """The event that learns now."""
        last = self._last
        return last.learning.name if last is not None and last.ended is None else None

    def begin(self, learning: LearnOptions, by: str) -> None:
        """Begin a lesson, which goes on when this is back."""
        with self._lock:
            if busy := self.under_way:
                raise InputError(f"event {busy!r} learns now; one at a time, wait until it is done")
            self._last = begun = LessonRun(learning, by, time.monotonic())
        Thread(target=self._run, args=(begun,), name="desk-lesson", daemon=True).start()

    def publish(self, event: str, version: str) -> EventState:
        """Give an event the profile that the last lesson proposed; how the event is then."""
        lesson, proposal = self._proposed(event, version)
        self._model.wait()
        with self._topic() as topic:
            view = self._view(topic)
            now = require_event(view.events, event)
            refuse_promised(now)
            if (now.profile, now.seeds) != (proposal.event.profile, proposal.event.seeds):
                raise InputError(f"event {event!r}: is not what it was at the lesson; learn anew")
            topic.publish({proposal.event.key: proposal.value}, view.state)
            changed = self._view(topic).events.get(event, proposal.event)
            if changed.why:
                notify(f"the profile is {changed.state}, the seeds serve: {changed.why}")
        with self._lock:
            if self._last is lesson:  # no other was begun meanwhile
                self._last = None
        return changed

    def forget(self, event: str, version: str) -> EventState:
        """Go back from this version of an event's profile to the one before, or to its seeds."""
        teacher = self._model.wait()
        with self._topic() as topic:
            view = self._view(topic)
            now = require_event(view.events, event)
            if (now.profile.version if now.profile else "") != version:
                raise InputError(f"event {event!r}: its profile is another one by now; look again")
            if now.state == NONE:
                raise InputError(f"event {event!r}: has no profile, its seeds serve")
            before = previous_profile(now.profile)
            value = before.value(teacher.config.limits) if before else None
            topic.publish({now.key: value}, view.state)
            return self._view(topic).events.get(event, EventState(event))

    def _view(self, topic: SeedTopic) -> ControlView:
        self._mirrors.catch_up(topic.cluster)
        return self._model.view()

    def _proposed(self, event: str, version: str) -> tuple[LessonRun | None, Proposal]:
        lesson = self.of(event)
        proposal = lesson.proposal if lesson else None
        if proposal is None or proposal.profile.version != version:
            raise InputError(f"event {event!r}: this was not proposed last; let it learn anew")
        if not proposal.is_news:
            raise InputError("nothing new: the profile stays as it is")
        return lesson, proposal

    def _run(self, begun: LessonRun) -> None:
        with capture() as messages, acting_as(begun.by):
            done = self._learned(begun)
        self._last = replace(done, ended=time.monotonic(), messages=tuple(messages))
        self._moved()

    def _learned(self, begun: LessonRun) -> LessonRun:
        try:
            teacher = self._model.wait()
            with connected(self._config) as cluster:
                proposal, _ = ProfileTraining(cluster, teacher, begun.learning).propose()
            report_stream(proposal)
            danger = (
                publication_risk(proposal) if begun.learning.span else ""
            )  # without a stream: as it is
            return replace(begun, proposal=proposal, danger=danger)
        except NewsiftError as error:
            return replace(begun, refused=str(error))
        except Exception as error:  # the page is told, and the desk goes on
            log.exception("a lesson failed")
            return replace(begun, refused=f"{type(error).__name__}: {error}")
