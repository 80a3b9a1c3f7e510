"""Match records with all that a stranger may have written, and what becomes of them in a file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from newsift.files.rows import IN_FILE, Layout, OutputRecord, Per, read_match
from newsift.files.writers import FORMATS, record_writer

WILD = [
    "The ferry burns", "=1+1", "\t@x", 'say "hi", twice\nor more\r', "NUL \0 inside", "", "日本 🔥",
    "\x1b[31m\u202e", "a" * 5000, "x;=2",
]  # fmt: skip
OWN = {"likes": "12", "Text": "=as given", "na\0me \ud800": "\ud800 \0", "post_key": "7"}


def record_bytes(number: int, text: str, *seeds: str, **post: Any) -> bytes:
    """The record of a post on line `number`, as a filter writes it."""
    matches = [
        {
            "match_id": f"{number}-{seed}", "seed_id": seed, "seed_version": "a1b2c3d4e5f6",
            "event": f"event of {seed}", "title": f"title of {seed}", "score": 0.5 - i / 8,
            "threshold": 0.25, "why": [["ferry", 0.4], ["burns", 0.13]],
        }
        for i, seed in enumerate(seeds or ("ferry",))
    ]  # fmt: skip
    record = {
        "post": {"id": f"p{number}", "platform": "plain", "text": text, "author": "me"} | post,
        "matches": matches, "matched": len(matches), "seed_set": "0123456789ab",
        "model": "ab" * 32,
        "source": {"topic": "a.csv", "partition": 0, "offset": number - 1, "timestamp": 1},
        "processed_at": "2026-01-31T12:34:56.789Z",
    }  # fmt: skip
    return json.dumps(record, ensure_ascii=False).encode()


def output_record(
    number: int, text: str, *seeds: str, columns: Mapping[str, str] | None = None, **post: Any
) -> OutputRecord:
    """That record as it comes to a writer."""
    raw = record_bytes(number, text, *seeds, **post)
    record = read_match(raw)
    assert record is not None
    return OutputRecord(raw, record, record.matches, columns)


def wild_records(columns: Mapping[str, str] | None = None) -> list[OutputRecord]:
    """A record of each wild text, with two matches."""
    return [
        output_record(n, text, "ferry", "dam", columns=columns)
        for n, text in enumerate(WILD, start=1)
    ]


def write(
    file: Path,
    *batches: list[OutputRecord],
    per: Per | None = None,
    own: Mapping[str, str] | None = None,
) -> None:
    """Write records to a file by its ending, some at a time."""
    with record_writer(file, FORMATS[file.suffix], Layout(IN_FILE, per, list(own or ()))) as add:
        for batch in batches:
            add(batch)


def expected(each: OutputRecord, index: int = 0) -> dict[str, Any]:
    """The cells of a row, from the record's JSON alone."""
    record = json.loads(each.value)
    match, post = record["matches"][index], record["post"]
    own = {name: part for name, part in match.items() if name != "why"}
    own |= {"why": "ferry[0.40] burns[0.13]", "source": "a.csv"}
    own |= {"line": record["source"]["offset"] + 1, "platform": "plain", "post_id": post["id"]}
    own |= {name: post.get(name) for name in ("author", "created_at", "lang", "url", "text")}
    return own | {name: record[name] for name in ("matched", "seed_set", "model", "processed_at")}
