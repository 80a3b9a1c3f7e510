"""Match records as programs keep them: read from bytes, and as a line of JSON each."""

import msgspec

from worker.match.records import MatchRecord
from worker.visible import escaped_json

OF_POST = ("author", "created_at", "lang", "url", "text")

_read = msgspec.json.Decoder(MatchRecord).decode


def read_match(value: bytes | None) -> MatchRecord | None:
    """The match record in a message; None if there is none."""
    try:
        return _read(value or b"")
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def json_line(value: bytes) -> bytes:
    """A record of JSON on one line, without what would steer a terminal."""
    text = value.decode()
    if text.isprintable():
        return value
    return escaped_json(msgspec.json.format(text, indent=-1)).encode()
