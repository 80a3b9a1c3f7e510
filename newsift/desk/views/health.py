"""Health and dead letters: problems with their remedies, and retries of letters."""

from collections import Counter
from typing import Annotated, Any

import msgspec

from encoder.errors import InputError
from newsift.desk.api import Action, EmptyRequest, get_endpoint, post_endpoint
from newsift.desk.dead_letters import RETRYABLE_REASONS, read_letter
from newsift.desk.mirrors import NOT_READ
from newsift.desk.session import Desk
from newsift.operations.dead_letters import (
    DeadLetter,
    LetterSelection,
    format_unsent,
    retry_letters,
)
from worker.kafka.reading import connected

MAX_NAMES = 200
Place = Annotated[int, msgspec.Meta(ge=0)]


class LetterPlace(msgspec.Struct, frozen=True):
    partition: Place
    offset: Place


class Retry(Action, frozen=True, kw_only=True):
    """Letters by id, all of a reason, or all."""

    names: Annotated[tuple[str, ...], msgspec.Meta(max_length=MAX_NAMES)] = ()
    reason: str | None = None
    every: bool = False


@get_endpoint("/api/health", EmptyRequest)
def health(desk: Desk, _request: EmptyRequest) -> dict[str, Any]:
    desk.health.note_viewer(letters=True)
    return desk.health.status()


@get_endpoint("/api/health/summary", EmptyRequest)
def summary(desk: Desk, _request: EmptyRequest) -> dict[str, Any]:
    desk.health.note_viewer()
    return desk.health.summary() | {"file": desk.file.progress if desk.file else None}


@get_endpoint("/api/dead-letters", EmptyRequest)
def letters(desk: Desk, _request: EmptyRequest) -> dict[str, Any]:
    desk.health.note_viewer(letters=True)
    follower = desk.health.letters_follower
    error = "" if follower.error == NOT_READ else follower.error
    return desk.health.letters.summary() | {"error": error, "ready": follower.ready.is_set()}


@get_endpoint("/api/dead-letters/one", LetterPlace)
def one_letter(desk: Desk, request: LetterPlace) -> dict[str, Any]:
    with connected(desk.config) as cluster:
        cluster.partitions(desk.config.topics.rejected)
        return read_letter(cluster, desk.config, request.partition, request.offset)


def _outcome(answer: dict[str, Any]) -> str:
    unsent = format_unsent(Counter(answer["unsent"]))
    return f"{answer['count']:,} sent again" + (f"; not sent: {unsent}" if unsent else "")


@post_endpoint("/api/dead-letters/retry", Retry, "dead-letters.retry", _outcome)
def retry(desk: Desk, request: Retry) -> dict[str, Any]:
    """Retries each letter once; letters that are not sent are counted by reason."""
    if bool(request.names) + (request.reason is not None) + request.every != 1:
        raise InputError("retry: name letters, or a reason, or say every")
    if request.reason is not None and request.reason not in RETRYABLE_REASONS:
        raise InputError(f"reason: {request.reason[:40]!r} is none; give one of those listed")
    if not desk.health.retrying.acquire(blocking=False):
        raise InputError("retry: another one is running; wait until it ends")
    names: list[str] = []

    def note(letter: DeadLetter) -> None:
        desk.health.letters.note_retry(letter.id)
        if len(names) < MAX_NAMES:
            names.append(letter.id)

    try:
        result = retry_letters(
            desk.config, LetterSelection(frozenset(request.names), request.reason), note
        )
    finally:
        desk.health.retrying.release()
        desk.changes.notify("health")
    return {"count": result.count, "unsent": dict(result.not_sent), "names": names}
