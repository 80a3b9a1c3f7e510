"""The model of the desk: loaded by a thread of its own, as the first start compiles for a while."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Event, Lock, Thread

from encoder.errors import InputError, NewsiftError
from worker.actions.events.event import KnownEvent, events_in
from worker.actions.events.teacher import Teacher
from worker.actions.seeds.thresholds import ALL
from worker.config import Config
from worker.desk.known import Control
from worker.desk.turn import PATIENCE_S, one_at_a_time
from worker.match.assembly import assembled
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.set import SeedSet

WAIT_S = 60.0  # that an action waits for a model which is still being loaded
LOADING = "the model is still being loaded; the first start takes a minute"
log = logging.getLogger("newsift.desk")


@dataclass(frozen=True, eq=False)
class Standing:
    """What the records of one version make: what posts are compared with, and the events."""

    version: int
    seeds: SeedSet
    events: dict[str, KnownEvent]


class Model:
    """The encoder with its background, once it is there; `away` says why it is not."""

    def __init__(
        self, config: Config, control: Callable[[], Control], moved: Callable[[], None]
    ) -> None:
        """Of the records that `control` gives; `moved` is told when it is there, or refused."""
        matching = replace(config.matching, why=False, max_matches=ALL)
        self._config, self._moved = replace(config, matching=matching), moved
        self._control, self._making = control, Lock()
        self._teacher: Teacher | None = None
        self._embedder: SeedEmbedder | None = None  # of its own, as it forgets what others ask for
        self._made: Standing | None = None
        self._settled = Event()
        self.away = LOADING

    def start(self) -> None:
        """Begin to load it; nobody waits."""
        Thread(target=self._load, name="desk-model", daemon=True).start()

    def now(self) -> Teacher | None:
        """The model, if it is there."""
        return self._teacher

    def wait(self, seconds: float = WAIT_S) -> Teacher:
        """The model as soon as it is there, or a refusal that says why not."""
        self._settled.wait(seconds)
        if self._teacher is None:
            raise InputError(f"model: {self.away}")
        return self._teacher

    def standing(self) -> Standing:
        """What the control topic's records make now, made once for each version; or a refusal."""
        teacher, control = self.wait(0), self._control()
        with one_at_a_time(self._making, "many seeds are being read"):
            if self._made is None or self._made.version != control.version:
                assert self._embedder is not None
                began = time.monotonic()
                seeds = self._embedder.make(control.book)
                found = events_in(control.values, seeds, teacher.config.limits)
                self._made = Standing(control.version, seeds, found)
                if time.monotonic() - began > PATIENCE_S:
                    self._moved()  # who was refused meanwhile asks again
            return self._made

    def events(self) -> dict[str, KnownEvent]:
        """All events as they are now; a refusal while the model is not there."""
        return self.standing().events

    def _load(self) -> None:
        try:
            teacher = Teacher(self._config)
            self._embedder = assembled(teacher.enc, self._config)[1]
            teacher.enc.compile_explanations()
            self._teacher, self.away = teacher, ""
        except NewsiftError as error:
            self.away = str(error)
        except Exception as error:
            log.exception("the model is not loaded")
            self.away = f"{type(error).__name__}: {error}"
        if self.away:
            log.warning("the model is not loaded: %s", self.away)
        self._settled.set()
        self._moved()
