"""Dead letters: how many of which reason, one with its bytes, and another attempt."""

from collections import Counter
from typing import Annotated, Any

import msgspec

from encoder.errors import InputError
from worker.actions.dead_letters.read import DeadLetter
from worker.actions.dead_letters.retry import Choice, retry_letters
from worker.actions.told import tallied
from worker.desk.desk import Desk
from worker.desk.following import NOT_READ
from worker.desk.health.letters import KNOWN, whole_letter
from worker.desk.server.api import Act, Nothing, acts, reads
from worker.kafka.reading import connected

MOST_NAMES = 200
Place = Annotated[int, msgspec.Meta(ge=0)]
Names = Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_NAMES)]


class Which(msgspec.Struct, frozen=True):
    """Where a letter stands in its topic."""

    partition: Place
    offset: Place


class Retry(Act, frozen=True, kw_only=True):
    """Which letters are to be sent again: these, all of a reason, or all that can be."""

    names: Names = ()
    reason: str | None = None
    every: bool = False


@reads("/api/dead-letters", Nothing)
def letters(desk: Desk, _asked: Nothing) -> dict[str, Any]:
    """How many there are by reason, and the newest."""
    desk.health.look(at_letters=True)
    follows = desk.health.of_letters
    away = "" if follows.away == NOT_READ else follows.away
    return desk.health.letters.told() | {"away": away, "ready": follows.ready.is_set()}


@reads("/api/dead-letters/one", Which)
def one(desk: Desk, asked: Which) -> dict[str, Any]:
    """A letter with its bytes."""
    with connected(desk.config) as cluster:
        cluster.partitions(desk.config.topics.rejected)
        return whole_letter(cluster, desk.config, asked.partition, asked.offset)


def _sent(answer: dict[str, Any]) -> str:
    kept = tallied(Counter(answer["kept"]))
    return f"{answer['count']:,} sent again" + (f"; not sent: {kept}" if kept else "")


@acts("/api/dead-letters/retry", Retry, "dead-letters.retry", _sent)
def retry(desk: Desk, asked: Retry) -> dict[str, Any]:
    """Send letters again, each once; those that the broker has are counted, and why others stay."""
    if bool(asked.names) + (asked.reason is not None) + asked.every != 1:
        raise InputError("retry: name letters, or a reason, or say every")
    if asked.reason is not None and asked.reason not in KNOWN:
        raise InputError(f"reason: {asked.reason[:40]!r} is none; give one of those listed")
    if not desk.health.retrying.acquire(blocking=False):
        raise InputError("retry: another one is under way; wait for its end")
    sent: list[str] = []

    def note(letter: DeadLetter) -> None:
        desk.health.letters.sent_again([letter.id])
        if len(sent) < MOST_NAMES:
            sent.append(letter.id)

    try:
        done = retry_letters(desk.config, Choice(frozenset(asked.names), asked.reason), note)
    finally:
        desk.health.retrying.release()
        desk.pulse.moved("health")
    return {"count": done.count, "kept": dict(done.kept), "names": sent}


ENDPOINTS = (letters, one, retry)
