"""Match records as people and programs keep them: a line of JSON each, or rows of CSV."""

from collections.abc import Sequence

import msgspec

from worker.files.cells import csv_row
from worker.match.records import Match, MatchRecord
from worker.visible import escaped_json

OF_MATCH = ("match_id", "score", "threshold", "event", "seed_id", "seed_version", "title")
OF_POST = ("author", "created_at", "lang", "url", "text")
OF_RECORD = ("matched", "seed_set", "model", "processed_at")
IN_FILE, IN_TOPIC = ("source", "line"), ("source",)

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


def csv_header(place: Sequence[str]) -> bytes:
    """The names of the columns of `csv_rows`, for posts that come from there."""
    names = (*OF_MATCH, "platform", "post_id", *OF_POST, "why", *place, *OF_RECORD)
    return csv_row(names).encode()


def csv_rows(
    record: MatchRecord, matches: Sequence[Match], place: Sequence[str], terminal: bool
) -> bytes:
    """A row for each of these matches of a record, safe to open in a spreadsheet."""
    post, source = record.post, record.source
    at: tuple[str | int, ...] = (f"{source.topic}-{source.partition}-{source.offset}",)
    if place == IN_FILE:
        at = (source.topic, source.offset + 1)
    rest = [getattr(record, name) for name in OF_RECORD]
    said = [post.platform, post.id, *(getattr(post, name) for name in OF_POST)]
    table = []
    for match in matches:
        why = " ".join(f"{word}[{part:.2f}]" for word, part in match.why)
        own = [getattr(match, name) for name in OF_MATCH]
        table.append(csv_row([*own, *said, why, *at, *rest], terminal))
    return "".join(table).encode("utf-8", "replace")
