"""Records of a compacted topic in a file, byte for byte, as `newsift seeds export` writes them."""

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from encoder.errors import InputError
from newsift.files.documents import json_items
from newsift.files.messages import FormatError
from newsift.files.posts import read_start
from newsift.files.read import BOM, chunks
from newsift.files.writers import json_file
from worker.posts.times import rfc3339
from worker.seeds.state import ControlRecord
from worker.text import bytes_from_json, bytes_to_json, escape_json

ENDINGS = (".jsonl", ".json")
EXPECTED_ROW = '{"key": …, "value": …}, as newsift seeds export writes it'


def write_records(file: Path, records: Iterable[ControlRecord]) -> None:
    """Sorted by key; an array if the name ends in .json. The file is replaced completely."""
    with json_file(file) as add:
        for record in sorted(records, key=lambda record: record.key or b""):
            row = {"key": bytes_to_json(record.key), "value": bytes_to_json(record.value)}
            row["published_at"] = rfc3339(max(record.timestamp, 0))
            add(escape_json(json.dumps(row, ensure_ascii=False)).encode())


def read_records(file: Path) -> dict[bytes, bytes]:
    """By key; a record without a key has an empty one."""
    records: dict[bytes, bytes] = {}
    for place, line in _rows(file):
        where = f"{file}, {place}"
        try:
            row = json.loads(line)
            value = row["value"]
            key = bytes_from_json("" if row["key"] is None else row["key"])
            content = b"" if value is None else bytes_from_json(value)
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            raise InputError(f"{where}: is not {EXPECTED_ROW}") from None
        if value is None:
            raise InputError(f"{where}: has no value; newsift seeds remove deletes a seed")
        if key in records:
            raise InputError(f"{where}: has the key of an earlier row; leave one")
        records[key] = content
    if not records:
        raise InputError(f"{file}: holds no record; each line is {EXPECTED_ROW}")
    return records


def _rows(file: Path) -> Iterator[tuple[str, bytes]]:
    start, pieces = read_start(chunks(file))
    try:
        unit = "item" if start.removeprefix(BOM).lstrip().startswith(b"[") else "line"
        for value, number, _ in chain.from_iterable(json_items(pieces, unit)):
            yield f"{unit} {number}", value
    except FormatError as error:
        raise InputError(f"{error.location(file)}: {error}") from None
