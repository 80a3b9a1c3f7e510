"""All records of the control topic, as they are, as lines of JSON, and back."""

import json
from collections.abc import Iterator
from pathlib import Path

from encoder.errors import InputError
from worker.actions.keyed import Latest
from worker.files.read import each_line
from worker.posts.times import rfc3339
from worker.visible import bytes_in_json, bytes_of_json, escaped_json

WANTED = '{"key": …, "value": …}, as newsift seeds export writes it'


def exported(latest: Latest) -> Iterator[bytes]:
    """A line of JSON for each record that deletes nothing, refused ones too, to the byte."""
    kept = [record for record in latest.values() if record.value is not None]
    for record in sorted(kept, key=lambda record: record.key or b""):
        row = {"key": bytes_in_json(record.key), "value": bytes_in_json(record.value)}
        row["published_at"] = rfc3339(max(record.timestamp, 0))
        yield escaped_json(json.dumps(row, ensure_ascii=False)).encode() + b"\n"


def exported_records(file: Path) -> dict[bytes, bytes | None]:
    """The records of a file by key; one without a key stands under an empty one."""
    records: dict[bytes, bytes | None] = {}
    for number, line in each_line(file):
        if not line.strip():
            continue
        key, value = _record(line, f"{file}, line {number}")
        if key in records:
            raise InputError(f"{file}, line {number}: its key stood in a line before; leave one")
        records[key] = value
    if not records:
        raise InputError(f"{file}: holds no seed; each line is {WANTED}")
    return records


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
