"""Posts of Mastodon: statuses, by themselves or in the events of its streams."""

import msgspec

from worker.config import Limits
from worker.posts.checks import diagnosis, refusal
from worker.posts.making import made
from worker.posts.markup import spoken
from worker.posts.outcome import NO_POST, Reading

WRITTEN = ("update", "status.update")


class Account(msgspec.Struct):
    """The author of a status."""

    acct: str | None = None


class Status(msgspec.Struct):
    """A status, or the one that it boosts."""

    id: str | int | None = None
    content: str | None = None
    spoiler_text: str | None = None
    account: Account | None = None
    created_at: str | None = None
    language: str | None = None
    url: str | None = None
    uri: str | None = None
    reblog: "Status | None" = None


class StreamEvent(Status):
    """A status by itself, or an event that holds one."""

    event: str | None = None
    payload: msgspec.Raw = msgspec.Raw()


DECODER = msgspec.json.Decoder(StreamEvent)
STRING = msgspec.json.Decoder(str)


def read(value: bytes, limits: Limits) -> Reading:
    """The post in a status, or in an event that brings one."""
    message = DECODER.decode(value)
    if message.event is None:
        return of_status(message)
    if message.event not in WRITTEN or not message.payload:
        return NO_POST
    payload = bytes(message.payload)
    if payload.startswith(b'"'):
        return _packed(payload, limits)
    return of_status(DECODER.decode(payload))


def _packed(payload: bytes, limits: Limits) -> Reading:
    """The post in JSON within JSON, as the streams send it."""
    status = STRING.decode(payload).encode()
    if (bad := refusal(status, limits)) is not None:
        return bad
    try:
        return of_status(DECODER.decode(status))
    except (msgspec.MsgspecError, RecursionError) as error:
        return diagnosis(status, error)


def of_status(status: Status) -> Reading:
    """The post in a status; a boost says what the boosted status says."""
    said = status.reblog if status.reblog is not None else status
    author = status.account.acct if status.account is not None else None
    lang = status.language or said.language
    url = status.url or said.url or status.uri
    return made("mastodon", status.id, text_of(said), author, status.created_at, lang, url)


def text_of(status: Status) -> str | None:
    """The text of a status below its content warning."""
    if status.content is None:
        return None
    return "\n\n".join(t for t in (status.spoiler_text, spoken(status.content)) if t)
