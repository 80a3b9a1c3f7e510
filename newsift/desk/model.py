"""The model of the desk: loaded by a thread of its own, as the first start compiles for a while."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Event, Lock, Thread

from encoder.errors import InputError, NewsiftError
from newsift.desk.threads import PATIENCE_S, lock_or_busy
from newsift.operations.events import EventState, events_of
from newsift.operations.model_context import MAX_MATCHES, ModelContext
from newsift.operations.seed_rows import SeedRow, resolve_state, seed_row
from newsift.operations.times import now_ms
from worker.assembly import assembled
from worker.config import Config
from worker.posts.times import rfc3339
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.set import SeedSet
from worker.seeds.state import ControlState, Resolution

WAIT_S = 60.0  # that an action waits for a model which is still being loaded
LOADING = "the model is still being loaded; the first start takes a minute"
log = logging.getLogger("newsift.desk")


@dataclass(frozen=True, eq=False)
class ControlView:
    """A state of the control topic as its pages show it; without a model as far as that goes."""

    resolution: Resolution
    _seeds: SeedSet | None

    @property
    def state(self) -> ControlState:
        """What it is of."""
        return self.resolution.state

    @property
    def seeds(self) -> SeedSet:
        """What posts are compared with, as the model makes it."""
        assert self._seeds is not None
        return self._seeds

    @cached_property
    def events(self) -> dict[str, EventState]:
        """All events by name, as the model sees them."""
        return events_of(self.state, self.seeds)

    def rows(self) -> list[SeedRow]:
        """Every seed and profile by event and id; each names the key of its record."""
        now = rfc3339(now_ms())
        return [row | {"state": "expired"} if _is_over(row, now) else row for row in self._rows]

    @cached_property
    def _rows(self) -> list[SeedRow]:
        records = self.state.records.items()
        rows = [seed_row(self.resolution, record) | {"key": key} for key, record in records]
        if self._seeds is not None:
            names = (seed.id for seed in self.seeds.seeds)
            cuts = dict(zip(names, self.seeds.thresholds.tolist(), strict=True))
            refused = {each.id: each.reason for each in self.seeds.refused}
            rows = [
                row | {"state": "refused", "reason": refused[row["id"]]}
                if row["id"] in refused
                else row | {"cut": cuts.get(row["id"])}
                for row in rows
            ]
        return sorted(rows, key=lambda row: (row.get("event") or "", row["id"]))


def _is_over(row: SeedRow, now: str) -> bool:
    """Whether a seed has ended since the rows were made."""
    return row["state"] == "live" and bool(row["expires_at"]) and row["expires_at"] <= now


class Model:
    """The encoder with its background, once it is there; `away` says why it is not."""

    def __init__(
        self, config: Config, control: Callable[[], ControlState], moved: Callable[[], None]
    ) -> None:
        """Of the state that `control` gives; `moved` is told when it is there, or refused."""
        matching = replace(config.matching, why=False, max_matches=MAX_MATCHES)
        self._config, self._moved = replace(config, matching=matching), moved
        self._control, self._making = control, Lock()
        self._teacher: ModelContext | None = None
        self._embedder: SeedEmbedder | None = None  # of its own, as it forgets what others ask for
        self._view: ControlView | None = None
        self._bare_view: ControlView | None = None
        self._settled = Event()
        self.away = LOADING

    def start(self) -> None:
        """Begin to load it; nobody waits."""
        Thread(target=self._load, name="desk-model", daemon=True).start()

    def now(self) -> ModelContext | None:
        """The model, if it is there."""
        return self._teacher

    def wait(self, seconds: float = WAIT_S) -> ModelContext:
        """The model as soon as it is there, or a refusal that says why not."""
        self._settled.wait(seconds)
        if self._teacher is None:
            raise InputError(f"model: {self.away}")
        return self._teacher

    def view(self) -> ControlView:
        """The control topic as it is now, with what posts are compared with; or a refusal."""
        self.wait(0)
        state = self._control()
        with lock_or_busy(self._making, "many seeds are being read"):
            if self._view is None or self._view.state is not state:
                assert self._embedder is not None
                began = time.monotonic()
                seeds = self._embedder.make(state)
                self._view = ControlView(state.resolve(self._embedder.facts), seeds)
                if time.monotonic() - began > PATIENCE_S:
                    self._moved()  # who was refused meanwhile asks again
            return self._view

    def view_without_model(self) -> ControlView:
        """The control topic as it is now, as far as the model's manifest tells."""
        state, view = self._control(), self._bare_view
        if view is None or view.state is not state:
            self._bare_view = view = ControlView(resolve_state(state, self._config), None)
        return view

    def rows(self) -> list[SeedRow]:
        """Every seed and profile, with the threshold that holds where the model is there."""
        return (self.view() if self.now() else self.view_without_model()).rows()

    def events(self) -> dict[str, EventState]:
        """All events as they are now; a refusal while the model is not there."""
        return self.view().events

    def _load(self) -> None:
        try:
            teacher = ModelContext(self._config)
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
