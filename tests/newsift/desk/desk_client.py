"""A desk without its web server, and calls of its endpoints as a page makes them."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from newsift.desk.api import Endpoint
from newsift.desk.session import Desk
from newsift.desk.views import ENDPOINTS
from tests.broker.clients import PATIENCE_S, until
from worker.config.load import load_config

DEADLINE_S = PATIENCE_S


def call(desk: Desk, endpoint: Endpoint, **values: Any) -> Any:
    content = msgspec.json.encode(values) if endpoint.audit_name else values
    return endpoint.function(desk, endpoint.parse(content))


class Client:
    """Calls endpoints by their paths; answers are plain JSON. `by` is the user."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def __call__(self, path: str, by: str = "ada", **values: Any) -> Any:
        (endpoint,) = (each for each in ENDPOINTS if each.path == path)
        values |= {"by": by} if endpoint.audit_name else {}
        return json.loads(msgspec.json.encode(call(self.desk, endpoint, **values)))

    def until(self, path: str, condition: Callable[[Any], object], **values: Any) -> Any:
        until(lambda: condition(self(path, **values)))
        return self(path, **values)


@contextmanager
def open_desk(*, model: bool = False, matches: bool = False) -> Iterator[Desk]:
    desk = Desk(load_config())
    desk.mirrors.start()
    followers = [desk.mirrors.seeds_follower, desk.mirrors.labels_follower]
    if matches:
        followers.append(desk.mirrors.matches_follower)
    if model:
        desk.model.start()
        desk.model.wait()
    try:
        for each in followers:
            assert each.ready.wait(DEADLINE_S)
        yield desk
    finally:
        desk.stop()
