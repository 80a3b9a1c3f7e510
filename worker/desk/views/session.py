"""What every page needs to know of the desk that it is of."""

from importlib.metadata import version
from typing import Any

from worker.actions.who import myself
from worker.desk.desk import Desk
from worker.desk.server.api import LONGEST_NAME, Nothing, reads
from worker.visible import cut, one_line


@reads("/api/session", Nothing)
def session(desk: Desk, _asked: Nothing) -> dict[str, Any]:
    """Where it reads, whether it may act, and by which name who sits here is called at first."""
    return {
        "kafka": desk.config.kafka.bootstrap_servers,
        "read_only": desk.read_only,
        "version": version("newsift"),
        "you": cut(one_line(myself()), LONGEST_NAME) or "somebody",
    }


ENDPOINTS = (session,)
