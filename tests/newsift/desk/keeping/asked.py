"""A desk without its web server: what its endpoints answer, as a page would hear it."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from newsift.desk.api import Attachment
from newsift.desk.session import Desk
from newsift.desk.views import ENDPOINTS
from worker.config import load_config

DEADLINE_S = 60.0


def until(holds: Callable[[], object]) -> None:
    """Wait for a condition, not for ever."""
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


class Asked:
    """A desk that is asked, and acts, as pages do it; `by` is who does."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def __call__(self, path: str, by: str = "ada", **question: Any) -> Any:
        """The answer to a question, once what was published before is known."""
        (endpoint,) = (each for each in ENDPOINTS if each.path == path)
        given = question | ({"by": by} if endpoint.does else {})
        wanted = endpoint.question(given, bool(endpoint.does))
        answer = endpoint.answer(self.desk, wanted)
        assert not isinstance(answer, Attachment)
        return json.loads(msgspec.json.encode(answer))

    def until(self, path: str, holds: Callable[[Any], object], **question: Any) -> Any:
        """The first answer of which this holds."""
        until(lambda: holds(self(path, **question)))
        return self(path, **question)


@contextmanager
def desk_of_its_own() -> Iterator[Asked]:
    """A desk on the broker of the environment while the block lasts; its topics are read."""
    desk = Desk(load_config())
    desk.mirrors.start()
    desk.model.start()
    desk.model.wait()
    until(desk.mirrors.of_seeds.ready.is_set)
    try:
        yield Asked(desk)
    finally:
        desk.stop()
