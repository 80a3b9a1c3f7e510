"""Files of a megabyte at most that unpack to gigabytes, and what `newsift filter` makes of each."""

import gzip
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.newsift.files.test_read import with_long_window

NEWSIFT = Path(sys.executable).with_name("newsift")
MAX_FILE_BYTES = 2**20  # bytes of such a file
MAX_RESIDENT_BYTES = 2**30  # bytes resident, that reading it may take
POLL_S = 0.02
SEED = "A fire on the ferry forced the passengers into the lifeboats on Tuesday morning. " * 4


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of a file: the exit code, the peak of resident memory, the last line message."""

    code: int
    peak: int  # bytes, of the process and of those that it starts, together
    message: str


def packed_lines(line: bytes, size: int = 2**30) -> bytes:
    """So many bytes of a line, packed by gzip."""
    out = io.BytesIO()
    with gzip.GzipFile("", "wb", 9, out, mtime=0) as file:
        block = line * (2**20 // len(line))
        for _ in range(size // len(block)):
            file.write(block)
    return out.getvalue()


FILES: Mapping[str, Callable[[], bytes]] = {
    "plain.jsonl": lambda: b'{"id": "1", "text": "a ferry"}\n' * 100,
    "line.csv.gz": lambda: packed_lines(b"x"),
    "rows.csv.gz": lambda: packed_lines(b"text,id\n", 2**21),
    "cells.csv": lambda: b"text," + b"c," * 400_000 + b"c\n",
    "blank.csv.gz": lambda: packed_lines(b"\n", 2**24),
    "objects.jsonl.gz": lambda: packed_lines(b"{}\n", 2**21),
    "posts.jsonl.gz": lambda: packed_lines(b'{"id":1,"text":"a"}\n', 2**21),
    "keys.jsonl": lambda: json.dumps({f"{n}": n for n in range(60_000)}).encode(),
    "array.json.gz": lambda: packed_lines(b"[" * 2**20),
    "items.json": lambda: b"[" + b"1," * 500_000 + b"1]",
    "window.jsonl.zst": lambda: with_long_window(
        b'{"id": 1, "text": "a"' + b" " * 10**6 + b"}\n", 2000
    ),
    "deep.json": lambda: b'{"a":' * 200_000,
}
PAGES: Mapping[str, Callable[[], bytes]] = {
    "tags.html": lambda: b"<html>" + b"<div><p>a" * 100_000,
    "attributes.html": lambda: b"<html><p " + b"a=b " * 250_000 + b">",
    "entities.html": lambda: b"<html><p>" + b"&amp;" * 200_000,
}


def read(name: str, folder: Path) -> Reading:
    """Write one of the files beside ordinary posts and an article, filter it, and measure."""
    file, posts, seed = (folder / each for each in (name, "posts.jsonl", "seed.md"))
    seed.write_text(SEED)
    posts.write_bytes(FILES["plain.jsonl"]())
    file.write_bytes({**FILES, **PAGES}[name]())
    given = (posts, "--seeds", file) if name in PAGES else (file, "--seeds", seed)
    most = 0
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(
            [NEWSIFT, "filter", *given, "--device", "cpu"],
            stdout=subprocess.DEVNULL, stderr=log,
        ) as process,
    ):  # fmt: skip
        while process.poll() is None:
            most = max(most, sum(resident(process.pid)))
            time.sleep(POLL_S)
        log.seek(0)
        answer = log.read().decode().splitlines()
    return Reading(process.returncode, most, answer[-1] if answer else "")


def resident(pid: int) -> Iterator[int]:
    """The resident bytes of a process and of all that it started."""
    try:
        # Pages that processes share count once; a process that is being started shares all.
        sizes = Path(f"/proc/{pid}/smaps_rollup").read_text()
        children = [*Path(f"/proc/{pid}/task").glob("*/children")]
        started = [int(each) for file in children for each in file.read_text().split()]
    except OSError:
        return
    for line in sizes.splitlines():
        if line.startswith("Pss:"):
            yield int(line.split()[1]) * 1024
    for child in started:
        yield from resident(child)


@pytest.mark.parametrize("name", [*FILES, *PAGES])
def test_a_file_takes_less_than_a_gib(tmp_path: Path, name: str) -> None:
    result = read(name, tmp_path)
    assert (tmp_path / name).stat().st_size <= MAX_FILE_BYTES
    assert result.peak < MAX_RESIDENT_BYTES, result
    assert result.code in (0, 1, 2), result
    assert result.message.startswith("newsift: "), result
