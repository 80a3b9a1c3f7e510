"""Files of a megabyte at most that unpack to gigabytes, and what `newsift filter` takes for each.

`python -m tests.hostile.files` prints the table.
"""

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
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

NEWSIFT = Path(sys.executable).with_name("newsift")
MAX_FILE_BYTES = 2**20  # bytes of such a file
MAX_RESIDENT_BYTES = 2**30  # bytes resident, that reading it may take
POLL_S = 0.02
SEED = "A fire on the ferry forced the passengers into the lifeboats on Tuesday morning. " * 4
BLOCK = 2**28


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of a file: the exit code, the peak of resident memory, the last line message."""

    code: int
    peak: int  # bytes, of the process and of those that it starts, together
    message: str
    seconds: float


def parquet(*tables: pa.Table, **options: Any) -> bytes:
    """Each table in row groups of its own."""
    out = io.BytesIO()
    with pq.ParquetWriter(out, tables[0].schema, compression="zstd", **options) as writer:
        for table in tables:
            writer.write_table(table)
    return out.getvalue()


PLAIN: dict[str, Any] = {"use_dictionary": False}
PREFIXES = PLAIN | {"column_encoding": {"text": "DELTA_BYTE_ARRAY"}}
HUGE = pa.table({"text": ["x" * (BLOCK // 2)]})


def one_page() -> bytes:
    """Four texts of 256 MiB in one page."""
    text = pa.array(["x" * BLOCK], pa.large_string())
    table = pa.table({"text": pa.chunked_array([text] * 4)})
    return parquet(table, data_page_size=2**31 - 1, **PLAIN)


def late() -> bytes:
    """Huge texts behind ten thousand posts."""
    posts = pa.table({"text": [f"post {n} on a ferry" for n in range(10_000)]})
    return parquet(posts, HUGE, HUGE, **PLAIN)


def dictionary(length: int, rows: int) -> bytes:
    """One text of this length that all rows mean."""
    codes = pa.array([0] * rows, pa.int32())
    return parquet(pa.table({"text": pa.DictionaryArray.from_arrays(codes, ["x" * length])}))


def nested() -> bytes:
    """A list of 256 million numbers beside a text."""
    values = pa.array(memoryview(bytes(BLOCK)), pa.int8())
    many = pa.ListArray.from_arrays(pa.array([0, BLOCK], pa.int32()), values)
    return parquet(pa.table({"text": ["a ferry"], "many": many}))


def many_columns() -> bytes:
    """A thousand columns of a text of 4 MiB."""
    text = pa.array(["x" * 2**22])
    return parquet(pa.table({"text": text} | {f"c{n}": text for n in range(999)}), **PLAIN)


def zigzag(number: int, length: int = 0) -> bytes:
    """A number as thrift has it in its compact protocol, in so many bytes at least."""
    number, result = number << 1, bytearray()
    while number > 127 or len(result) + 1 < length:
        result.append(number & 127 | 128)
        number >>= 7
    return bytes([*result, number])


def lying(honest: bytes, lie: int) -> bytes:
    """The file with another size in the place of its first column's and of that one's pages."""
    group = pq.ParquetFile(io.BytesIO(honest)).metadata.row_group(0)
    total = int(group.column(0).total_uncompressed_size)
    result = honest
    for header in range(64):  # bytes of a page's own header, that its column counts too
        number = zigzag(total - header)
        result = result.replace(number, zigzag(lie, len(number)))
    assert len(result) == len(honest)
    assert result != honest
    return result


def packed_lines(line: bytes, size: int = 2**30) -> bytes:
    """So many bytes of a line, packed by gzip."""
    out = io.BytesIO()
    with gzip.GzipFile("", "wb", 9, out, mtime=0) as file:
        block = line * (2**20 // len(line))
        for _ in range(size // len(block)):
            file.write(block)
    return out.getvalue()


def long_window() -> bytes:
    """Two GB of posts that zstd packed with a window as long."""
    options = zstandard.ZstdCompressionParameters.from_level(1, window_log=31)
    packer = zstandard.ZstdCompressor(compression_params=options).compressobj()
    line = b'{"id": 1, "text": "a"' + b" " * 10**6 + b"}\n"
    return b"".join([*(packer.compress(line) for _ in range(2000)), packer.flush()])


FILES: Mapping[str, Callable[[], bytes]] = {
    "plain.jsonl": lambda: b'{"id": "1", "text": "a ferry"}\n' * 100,
    "one page.parquet": one_page,
    "row groups.parquet": lambda: parquet(*[HUGE] * 16, **PLAIN),
    "late.parquet": late,
    "huge dictionary.parquet": lambda: dictionary(2**26, 10_000),
    "dictionary.parquet": lambda: dictionary(2**20, 500),
    # each text of a MiB as the one before and nothing more
    "prefixes.parquet": lambda: parquet(
        *[pa.table({"text": ["x" * 2**20] * 200})] * 16, **PREFIXES
    ),
    "nested.parquet": nested,
    "columns.parquet": many_columns,
    "small lie.parquet": lambda: lying(one_page(), 1),
    "dictionary lie.parquet": lambda: lying(dictionary(2**26, 10_000), 1),
    "large lie.parquet": lambda: lying(dictionary(2**27, 10), 2**31 - 1),
    "line.csv.gz": lambda: packed_lines(b"x"),
    "rows.csv.gz": lambda: packed_lines(b"text,id\n", 2**21),
    "cells.csv": lambda: b"text," + b"c," * 400_000 + b"c\n",
    "blank.csv.gz": lambda: packed_lines(b"\n", 2**24),
    "objects.jsonl.gz": lambda: packed_lines(b"{}\n", 2**21),
    "posts.jsonl.gz": lambda: packed_lines(b'{"id":1,"text":"a"}\n', 2**21),
    "keys.jsonl": lambda: json.dumps({f"{n}": n for n in range(60_000)}).encode(),
    "array.json.gz": lambda: packed_lines(b"[" * 2**20),
    "items.json": lambda: b"[" + b"1," * 500_000 + b"1]",
    "window.jsonl.zst": long_window,
    "deep.json": lambda: b'{"a":' * 200_000,
}
PAGES: Mapping[str, Callable[[], bytes]] = {
    "tags.html": lambda: b"<html>" + b"<div><p>a" * 100_000,
    "attributes.html": lambda: b"<html><p " + b"a=b " * 250_000 + b">",
    "entities.html": lambda: b"<html><p>" + b"&amp;" * 200_000,
}


def read(file: Path, seed: Path) -> Reading:
    """Let `newsift filter` read it, and measure."""
    began = time.monotonic()
    most = 0
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(
            [NEWSIFT, "filter", file, "--seeds", seed, "--device", "cpu"],
            stdout=subprocess.DEVNULL, stderr=log,
        ) as process,
    ):  # fmt: skip
        while process.poll() is None:
            most = max(most, sum(resident(process.pid)))
            time.sleep(POLL_S)
        log.seek(0)
        answer = log.read().decode().splitlines()
    return Reading(process.returncode, most, answer[-1] if answer else "", time.monotonic() - began)


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


def read_named(name: str, folder: Path) -> Reading:
    """Write one of the files, beside ordinary posts and an article, and have it read."""
    file, posts, seed = (folder / each for each in (name, "posts.jsonl", "seed.md"))
    seed.write_text(SEED)
    posts.write_bytes(FILES["plain.jsonl"]())
    file.write_bytes({**FILES, **PAGES}[name]())
    return read(posts, file) if name in PAGES else read(file, seed)


def main() -> None:
    """Read every file, and print what each took."""
    for name in sys.argv[1:] or [*FILES, *PAGES]:
        with tempfile.TemporaryDirectory() as folder:
            result = read_named(name, Path(folder))
            size = (Path(folder) / name).stat().st_size
        sys.stdout.write(
            f"{name:<24} {size:>9,} B  {result.peak / 2**20:>6,.0f} MiB  "
            f"{result.seconds:>5.1f} s  exit {result.code}  {result.message[:120]}\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
