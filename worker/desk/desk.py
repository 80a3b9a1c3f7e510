"""The desk: what its pages share while it is open."""

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from worker.config import Config
from worker.desk.model import Model
from worker.desk.server.pulse import Pulse
from worker.visible import one_line

WORKERS = 8  # questions that are answered at once
LONGEST_LINE = 1000  # characters of what the audit says of one action

audit = logging.getLogger("newsift.audit")


class Desk:
    """A configuration, what is followed of its topics, and the hands that answer."""

    def __init__(self, config: Config, read_only: bool = False) -> None:
        self.config, self.read_only = config, read_only
        self.pulse = Pulse()
        self.model = Model(config, lambda: self.pulse.moved("events", "seeds"))
        self.hands = ThreadPoolExecutor(WORKERS, "desk")

    def start(self) -> None:
        """Begin to follow the topics, and to load the model."""
        self.model.start()

    def stop(self) -> None:
        """Follow nothing any more; harmless if it never began."""
        self.hands.shutdown(wait=False, cancel_futures=True)


def note(does: str, by: str, asked: Any, outcome: str) -> None:
    """One line of the audit: who did what, with what, and how it ended."""
    details = {name: value for name, value in msgspec.to_builtins(asked).items() if name != "by"}
    said = msgspec.json.encode(details).decode()[:LONGEST_LINE]
    audit.info("%s by %s: %s (%s)", does, one_line(by) or "-", one_line(said), one_line(outcome))
