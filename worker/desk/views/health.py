"""Health: the broker, the workers, the collectors and the topics, and what to do about each."""

from typing import Any

from worker.desk.desk import Desk
from worker.desk.server.api import Nothing, reads


@reads("/api/health", Nothing)
def health(desk: Desk, _asked: Nothing) -> dict[str, Any]:
    """All that was seen by the last looks; asking is looking."""
    desk.health.look(at_letters=True)
    return desk.health.told()


@reads("/api/health/summary", Nothing)
def summary(desk: Desk, _asked: Nothing) -> dict[str, Any]:
    """The state of all in two words, which the head of every page shows."""
    desk.health.look()
    return desk.health.summary()


ENDPOINTS = (health, summary)
