"""Training of an event's profile at the desk: one run at a time, in a thread."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock

from encoder.errors import InputError
from newsift.desk.mirrors import TopicMirrors
from newsift.desk.model import ControlView, DeskModel
from newsift.desk.seed_editor import SeedEditor
from newsift.desk.threads import DaemonExecutor, failure_text
from newsift.operations.actor import acting_as
from newsift.operations.events import NO_PROFILE, EventState, require_event
from newsift.operations.messages import capture, notify
from newsift.operations.profile_training import (
    LearnOptions,
    ProfileTraining,
    Proposal,
    previous_profile,
    publication_risk,
    refuse_promised,
    report_labels,
    report_stream,
)
from newsift.operations.seed_topic import SeedTopic
from worker.config import Config
from worker.kafka.reading import connected


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRun:
    """Ends with a proposal or with a refusal."""

    learning: LearnOptions
    by: str
    start: float  # by the monotonic clock
    end: float | None = None
    proposal: Proposal | None = None
    risk: str = ""  # why the proposal should be checked before it is published
    messages: tuple[str, ...] = ()
    refusal: str = ""

    @property
    def seconds(self) -> float:
        return (time.monotonic() if self.end is None else self.end) - self.start


class Training:
    def __init__(
        self, config: Config, model: DeskModel, mirrors: TopicMirrors, editor: SeedEditor,
        executor: DaemonExecutor, on_change: Callable[[], None],
    ) -> None:  # fmt: skip
        """`on_change` is called when a run ends."""
        self._config, self._model, self._mirrors = config, model, mirrors
        self._editor, self._executor, self._on_change = editor, executor, on_change
        self._lock = Lock()
        self._last: TrainingRun | None = None

    def run_of(self, event: str) -> TrainingRun | None:
        last = self._last
        return last if last is not None and last.learning.name == event else None

    @property
    def busy_event(self) -> str | None:
        last = self._last
        return last.learning.name if last is not None and last.end is None else None

    def begin(self, learning: LearnOptions, by: str) -> None:
        with self._lock:
            if busy := self.busy_event:
                raise InputError(f"event {busy!r} is learning; wait until it is done")
            self._last = run = TrainingRun(learning, by, time.monotonic())
        self._executor.submit(self._run, run)

    def publish(self, event: str, version: str) -> EventState:
        """Publishes the proposal of the last run; returns the event afterwards."""
        run = self.run_of(event)
        proposal = run.proposal if run else None
        if proposal is None or proposal.profile.version != version:
            raise InputError(f"event {event!r}: this is not the last proposal; let it learn again")
        if not proposal.is_news:
            raise InputError("nothing new: the profile stays as it is")
        self._model.wait()
        with self._editor.topic() as topic:
            view = self._view(topic)
            current = require_event(view.events, event)
            refuse_promised(current)
            if (current.profile, current.seeds) != (proposal.event.profile, proposal.event.seeds):
                raise InputError(
                    f"event {event!r}: has changed since it learned; let it learn again"
                )
            topic.publish({proposal.event.key: proposal.value}, view.state)
            latest = self._view(topic).events.get(event, proposal.event)
            if latest.why:
                notify(f"the profile is {latest.profile_status}, the seeds are used: {latest.why}")
        with self._lock:
            if self._last is run:  # no other has begun
                self._last = None
        return latest

    def forget(self, event: str, version: str) -> EventState:
        """Restores the previous version, or the seeds."""
        context = self._model.wait()
        with self._editor.topic() as topic:
            view = self._view(topic)
            current = require_event(view.events, event)
            if (current.profile.version if current.profile else "") != version:
                raise InputError(f"event {event!r}: its profile has changed; load the page again")
            if current.profile_status == NO_PROFILE:
                raise InputError(f"event {event!r}: has no profile; its seeds are used")
            before = previous_profile(current.profile)
            value = before.value(context.config.limits) if before else None
            topic.publish({current.key: value}, view.state)
            return self._view(topic).events.get(event, EventState(event))

    def _view(self, topic: SeedTopic) -> ControlView:
        self._mirrors.catch_up(topic.cluster)
        return self._model.view()

    def _run(self, run: TrainingRun) -> None:
        with capture() as messages, acting_as(run.by):
            result = self._train(run)
        self._last = replace(result, end=time.monotonic(), messages=tuple(messages))
        self._on_change()

    def _train(self, run: TrainingRun) -> TrainingRun:
        try:
            context = self._model.wait()
            with connected(self._config) as cluster:
                proposal, _ = ProfileTraining(cluster, context, run.learning).propose()
            report_stream(proposal)
            report_labels(proposal)
            # without a stream there is nothing to compare with
            risk = publication_risk(proposal) if run.learning.span else ""
            return replace(run, proposal=proposal, risk=risk)
        except Exception as error:  # noqa: BLE001 - it is logged and shown
            return replace(run, refusal=failure_text(error, "training failed"))
