"""Health and dead letters: what is wrong and what to do, and another attempt at a letter."""

from collections import Counter
from typing import Annotated, Any

import msgspec

from encoder.errors import InputError
from newsift.desk.api import Act, Nothing, acts, reads
from newsift.desk.dead_letters import REASONS, whole_letter
from newsift.desk.mirrors import NOT_READ
from newsift.desk.session import Desk
from newsift.operations.dead_letters import DeadLetter, LetterSelection, retry_letters
from newsift.operations.messages import format_counts
from worker.kafka.reading import connected

MOST_NAMES = 200
Place = Annotated[int, msgspec.Meta(ge=0)]
Names = Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_NAMES)]


@reads("/api/health", Nothing)
def health(desk: Desk, _request: Nothing) -> dict[str, Any]:
    """All that was seen by the last looks; asking is looking."""
    desk.health.look(at_letters=True)
    return desk.health.status()


@reads("/api/health/summary", Nothing)
def summary(desk: Desk, _request: Nothing) -> dict[str, Any]:
    """The state of all in two words, which the head of every page shows."""
    desk.health.look()
    return desk.health.summary()


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
def letters(desk: Desk, _request: Nothing) -> dict[str, Any]:
    """How many there are by reason, and the newest."""
    desk.health.look(at_letters=True)
    follows = desk.health.of_letters
    away = "" if follows.away == NOT_READ else follows.away
    return desk.health.letters.summary() | {"away": away, "ready": follows.ready.is_set()}


@reads("/api/dead-letters/one", Which)
def one(desk: Desk, request: Which) -> dict[str, Any]:
    """A letter with its bytes."""
    with connected(desk.config) as cluster:
        cluster.partitions(desk.config.topics.rejected)
        return whole_letter(cluster, desk.config, request.partition, request.offset)


def _sent(answer: dict[str, Any]) -> str:
    unsent = format_counts(Counter(answer["kept"]))
    return f"{answer['count']:,} sent again" + (f"; not sent: {unsent}" if unsent else "")


@acts("/api/dead-letters/retry", Retry, "dead-letters.retry", _sent)
def retry(desk: Desk, request: Retry) -> dict[str, Any]:
    """Send letters again, each once; those that the broker has are counted, and why others stay."""
    if bool(request.names) + (request.reason is not None) + request.every != 1:
        raise InputError("retry: name letters, or a reason, or say every")
    if request.reason is not None and request.reason not in REASONS:
        raise InputError(f"reason: {request.reason[:40]!r} is none; give one of those listed")
    if not desk.health.retrying.acquire(blocking=False):
        raise InputError("retry: another one is under way; wait for its end")
    sent: list[str] = []

    def note(letter: DeadLetter) -> None:
        desk.health.letters.sent_again([letter.id])
        if len(sent) < MOST_NAMES:
            sent.append(letter.id)

    try:
        done = retry_letters(
            desk.config, LetterSelection(frozenset(request.names), request.reason), note
        )
    finally:
        desk.health.retrying.release()
        desk.pulse.moved("health")
    return {"count": done.count, "kept": dict(done.not_sent), "names": sent}


ENDPOINTS = (health, summary, letters, one, retry)
