"""The model of the desk: loaded by a thread of its own, as the first start compiles for a while."""

import logging
from collections.abc import Callable
from dataclasses import replace
from threading import Event, Thread

from encoder.errors import InputError, NewsiftError
from worker.actions.events.teacher import Teacher
from worker.actions.seeds.thresholds import ALL
from worker.config import Config

WAIT_S = 60.0  # that an action waits for a model which is still being loaded
LOADING = "the model is still being loaded; the first start takes a minute"
log = logging.getLogger("newsift.desk")


class Model:
    """The encoder with its background, once it is there; `away` says why it is not."""

    def __init__(self, config: Config, moved: Callable[[], None]) -> None:
        """`moved` is told when it is there, or refused."""
        matching = replace(config.matching, why=False, max_matches=ALL)
        self._config, self._moved = replace(config, matching=matching), moved
        self._teacher: Teacher | None = None
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

    def _load(self) -> None:
        try:
            self._teacher = Teacher(self._config)
            self.away = ""
        except NewsiftError as error:
            self.away = str(error)
        except Exception as error:
            log.exception("the model is not loaded")
            self.away = f"{type(error).__name__}: {error}"
        if self.away:
            log.warning("the model is not loaded: %s", self.away)
        self._settled.set()
        self._moved()
