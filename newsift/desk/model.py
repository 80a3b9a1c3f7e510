"""The desk's model, loaded in the background, and the control topic with the seed set it makes."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from threading import Event, Lock, Thread

from encoder.errors import InputError
from encoder.support.memory import return_free_memory
from newsift.desk.threads import PATIENCE_S, failure_text, lock_or_busy
from newsift.operations.events import EventState, events_of
from newsift.operations.model_context import ModelContext
from newsift.operations.seed_rows import SeedRow, resolve_state, seed_row
from newsift.operations.times import now_ms
from worker.config import Config
from worker.errors import BrokerError
from worker.posts.times import rfc3339
from worker.seeds.set import SeedSet
from worker.seeds.state import ControlState, Resolution

MAX_LOAD_WAIT_S = 60.0
STILL_LOADING = "the model is still being loaded; the first start takes a minute"
log = logging.getLogger("newsift.desk")


@dataclass(frozen=True, eq=False)
class ControlView:
    """A state of the control topic with its seed set, if there is a model."""

    resolution: Resolution
    _seeds: SeedSet | None

    @property
    def state(self) -> ControlState:
        return self.resolution.state

    @property
    def seeds(self) -> SeedSet:
        assert self._seeds is not None
        return self._seeds

    @cached_property
    def events(self) -> dict[str, EventState]:
        return events_of(self.state, self.seeds)

    def rows(self) -> list[SeedRow]:
        """Rows sorted by event and id; `key` is the key of the record."""
        now = rfc3339(now_ms())
        return [
            row | {"state": "expired"}
            if row["state"] == "live" and row["expires_at"] and row["expires_at"] <= now
            else row
            for row in self._rows
        ]

    @cached_property
    def _rows(self) -> list[SeedRow]:
        records = self.state.records.items()
        rows = [seed_row(self.resolution, record) | {"key": key} for key, record in records]
        if self._seeds is not None:
            reasons = {seed.id: seed.reason for seed in self.seeds.refused}
            rows = [
                row | {"state": "refused", "reason": reasons[row["id"]]}
                if row["id"] in reasons
                else row | {"threshold_in_force": self.seeds.threshold_of.get(row["id"])}
                for row in rows
            ]
        return sorted(rows, key=lambda row: (row.get("event") or "", row["id"]))


class DeskModel:
    """`error` is the reason while the model is not loaded."""

    def __init__(
        self, config: Config, control: Callable[[], ControlState], on_change: Callable[[], None]
    ) -> None:
        """`on_change` is called when the model is loaded or refused."""
        self._config, self._on_change = config, on_change
        self._control, self._embedding = control, Lock()
        self.context: ModelContext | None = None
        self._view: ControlView | None = None
        self._view_without_model: ControlView | None = None
        self._load_end = Event()
        self.error = STILL_LOADING

    def start(self) -> None:
        Thread(target=self._load, name="desk-model", daemon=True).start()

    @property
    def is_loading(self) -> bool:
        return not self._load_end.is_set()

    def wait(self, seconds: float = MAX_LOAD_WAIT_S) -> ModelContext:
        self._load_end.wait(seconds)
        if self.context is None:
            raise InputError(f"model: {self.error}")
        return self.context

    def view(self) -> ControlView:
        """Raises while the model is not loaded."""
        context, state = self.wait(0), self._control()
        with lock_or_busy(self._embedding, "many seeds are being embedded"):
            if self._view is None or self._view.state is not state:
                start = time.monotonic()
                seeds = context.seed_set(state)
                self._view = ControlView(state.resolve(context.facts), seeds)
                if time.monotonic() - start > PATIENCE_S:
                    self._on_change()  # pages that were refused meanwhile ask again
            return self._view

    @property
    def seed_set_digest(self) -> str | None:
        """Empty while the model is loaded or seeds are embedded; None without a model."""
        if self.context is None:
            return "" if self.is_loading else None
        try:
            return self.view().seeds.digest
        except BrokerError:
            return ""

    def rows(self) -> list[SeedRow]:
        """Rows with thresholds, once the model is loaded."""
        if self.context:
            return self.view().rows()
        state, view = self._control(), self._view_without_model
        if view is None or view.state is not state:
            self._view_without_model = view = ControlView(resolve_state(state, self._config), None)
        return view.rows()

    def _load(self) -> None:
        try:
            context = ModelContext(self._config)
            context.enc.compile_explanations()
            return_free_memory()
            self.context, self.error = context, ""
        except Exception as error:  # noqa: BLE001 - it is logged and shown
            self.error = failure_text(error, "the model is not loaded")
            log.warning("the model is not loaded: %s", self.error)
        self._load_end.set()
        self._on_change()
