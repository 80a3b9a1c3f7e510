"""All records of the control topic, as they are, as lines of JSON, and back."""

import json
from collections.abc import Iterator
from pathlib import Path

from encoder.errors import InputError
from worker.actions.keyed import Latest
from worker.files.formats.documents import items
from worker.files.formats.recognise import begun_with
from worker.files.messages import FormatError
from worker.files.read import BOM, chunks, lines
from worker.posts.times import rfc3339
from worker.visible import bytes_in_json, bytes_of_json, escaped_json

WANTED = '{"key": …, "value": …}, as newsift seeds export writes it'


def exported(latest: Latest) -> Iterator[bytes]:
    """A line of JSON for each record that deletes nothing, refused ones too, to the byte."""
    kept = [record for record in latest.values() if record.value is not None]
    for record in sorted(kept, key=lambda record: record.key or b""):
        row = {"key": bytes_in_json(record.key), "value": bytes_in_json(record.value)}
        row["published_at"] = rfc3339(max(record.timestamp, 0))
        yield escaped_json(json.dumps(row, ensure_ascii=False)).encode()


def exported_records(file: Path) -> dict[bytes, bytes | None]:
    """The records of a file by key; one without a key stands under an empty one."""
    records: dict[bytes, bytes | None] = {}
    for place, row in _rows(file):
        key, value = _record(row, f"{file}, {place}")
        if key in records:
            raise InputError(f"{file}, {place}: its key stood before; leave one")
        records[key] = value
    if not records:
        raise InputError(f"{file}: holds no seed; each line is {WANTED}")
    return records


def _rows(file: Path) -> Iterator[tuple[str, bytes]]:
    """The items of an array, or the lines that are not blank, with their places."""
    head, pieces = begun_with(file, chunks(file))
    if head.start.removeprefix(BOM).lstrip().startswith(b"["):
        try:
            values = (item.value for batch in items(pieces) for item in batch)
            for number, value in enumerate(values, 1):
                yield f"item {number}", value
        except FormatError as error:
            raise InputError(f"{error.at(file)}: {error}") from None
        return
    for first, rows in lines(pieces):
        for number, row in enumerate(rows, first):
            if row.strip():
                yield f"line {number}", row


def _record(line: bytes, where: str) -> tuple[bytes, bytes]:
    try:
        row = json.loads(line)
        key, value = row["key"], row["value"]
        if value is None:
            raise InputError(f"{where}: has no value; newsift seeds remove deletes a seed")
        return bytes_of_json("" if key is None else key), bytes_of_json(value)
    except InputError:
        raise
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise InputError(f"{where}: is not {WANTED}") from None
