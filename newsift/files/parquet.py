"""Reads the rows of Parquet files, with the extra `parquet`.

A page of a few kilobytes may unpack to gigabytes, whatever the metadata says. So a subprocess with
limited memory reads the file and sends the rows through a pipe.
"""

import json
import resource
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterator
from datetime import date
from importlib.util import find_spec
from math import isnan
from pathlib import Path
from typing import Any

import msgspec

from newsift.files.messages import FormatError
from newsift.files.read import DASH, MAX_LINE_BYTES
from newsift.files.subprocesses import command, environment
from newsift.files.tables import MAX_COLUMNS, list_names

MAGIC = b"PAR1"
MAX_BATCH_ROWS = 1024
MAX_BATCH_CELLS = 2**17
MAX_BATCH_BYTES = 2**22  # of texts; repeated ones count each time
BASE_MEMORY_BYTES = 2**28  # of the subprocess, in addition to eight times the file's size
LENGTH_BYTES = 8  # before each message of the subprocess


class ParquetMessage(msgspec.Struct):
    """Of the subprocess: first the header, then rows, and an empty one at the end; or a fault."""

    names: list[str] = []
    nested_types: dict[str, str] = {}  # the types of nested columns, by name
    row_count: int = 0
    rows: list[list[str] | None] = []  # of cells, None for one that is too long
    fault: str | None = None


MESSAGE = msgspec.msgpack.Decoder(ParquetMessage)


class ParquetTable:
    def __init__(self, file: Path) -> None:
        if file == DASH or not file.is_file():
            raise FormatError("Parquet is read from its end; give it as a file, unpacked")
        with file.open("rb") as raw:
            if raw.read(len(MAGIC)) != MAGIC:
                raise FormatError("is not Parquet, or it is packed; give it unpacked")
        if find_spec("pyarrow") is None:
            message = "Parquet needs pyarrow; install newsift with its extra: newsift[parquet]"
            raise FormatError(message)
        self._memory = BASE_MEMORY_BYTES + 8 * file.stat().st_size
        self._reader = _start(file, self._memory)
        self._stop = weakref.finalize(self, _stop, self._reader)
        first = self._message()
        self.header, self.rows, self._nested_types = (
            first.names,
            first.row_count,
            first.nested_types,
        )
        if len(self.header) > MAX_COLUMNS or len(set(self.header)) < len(self.header):
            columns = f"{len(self.header):,} columns ({list_names(self.header)})"
            raise FormatError(f"has {columns}, too many or two of one name; write fewer")

    def refuse_nested(self, name: str) -> None:
        """Raises FormatError for a column of lists or structures."""
        if type_ := self._nested_types.get(name):
            raise FormatError(f"{name!r} holds {type_}, no texts; name others with --text-column")

    def batches(self) -> Iterator[list[dict[str, str] | None]]:
        """None stands for a row that is too long."""
        try:
            while rows := self._message().rows:
                yield [
                    None if row is None else dict(zip(self.header, row, strict=True))
                    for row in rows
                ]
        finally:
            self._stop()

    def _message(self) -> ParquetMessage:
        assert self._reader.stdout is not None
        length = self._reader.stdout.read(LENGTH_BYTES)
        size = int.from_bytes(length)
        content = self._reader.stdout.read(size)
        if len(length) < LENGTH_BYTES or len(content) < size:
            raise FormatError(
                f"the Parquet takes more than {self._memory >> 20} MiB of memory to read; "
                "write it again with smaller pages"
            )
        message = MESSAGE.decode(content)
        if message.fault:
            raise FormatError(message.fault)
        return message


def _start(file: Path, memory: int) -> "subprocess.Popen[bytes]":
    sizes = [str(size) for size in (memory, MAX_BATCH_ROWS, MAX_BATCH_BYTES)]
    return subprocess.Popen(
        command(__name__, str(file.absolute()), *sizes),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env=environment() | {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def _stop(reader: "subprocess.Popen[bytes]") -> None:
    reader.kill()
    if reader.stdout:
        reader.stdout.close()
    reader.wait()


def serve() -> None:
    """The subprocess: reads the file named on the command line."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process stops this one
    file, *sizes = sys.argv[1:]
    memory, batch_rows, batch_bytes = map(int, sizes)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for message in _messages(file, batch_rows, batch_bytes):
        content = msgspec.msgpack.encode(message)
        sys.stdout.buffer.write(len(content).to_bytes(LENGTH_BYTES))
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()


def _messages(file: str, batch_rows: int, batch_bytes: int) -> Iterator[ParquetMessage]:
    import pyarrow
    from pyarrow import types
    from pyarrow.parquet import ParquetFile

    # Reads page by page instead of whole row groups.
    options: dict[str, Any] = {"pre_buffer": False, "buffer_size": 2**18}
    try:
        with ParquetFile(file, **options) as parquet:
            texts = _small_texts(parquet, batch_bytes)
        # Repeated texts of these columns are held only once.
        table = ParquetFile(file, read_dictionary=texts, **options)
        schema = table.schema_arrow
        nested_types = {
            field.name: str(field.type) for field in schema if types.is_nested(field.type)
        }
        count = max(int(table.metadata.num_rows), 1)
        yield ParquetMessage(list(schema.names), nested_types, count)
        rows = _batch_rows(table, batch_rows, batch_bytes)
        for batch in table.iter_batches(batch_size=rows, use_threads=False):
            for piece in _pieces(batch, batch_bytes) if batch.num_rows else ():
                yield ParquetMessage(rows=_rows(piece))
        yield ParquetMessage()
    except pyarrow.ArrowMemoryError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        problem = f"the Parquet is damaged or cut off ({error}); write it again"
        yield ParquetMessage(fault=problem)


def _rows(piece: Any) -> list[list[str] | None]:
    """None for a row that is too long."""
    if piece.num_rows == 1 and sum(map(_size, piece.columns)) > MAX_LINE_BYTES:
        return [None]
    columns = [[_cell(value) for value in _values(column)] for column in piece.columns]
    rows = [list(row) for row in zip(*columns, strict=True)]
    return [row if sum(map(len, row)) <= MAX_LINE_BYTES else None for row in rows]


def _values(column: Any) -> list[object]:
    """Where Python cannot hold a value, such as the year 30000 or invalid UTF-8, Arrow's texts."""
    try:
        values: list[object] = column.to_pylist()
    except (OverflowError, ValueError):
        values = column.cast("string").cast("binary").to_pylist()
    return values


def _batch_rows(table: Any, batch_rows: int, batch_bytes: int) -> int:
    """The number of rows for a batch, by the longest rows in the metadata."""
    row_bytes = (group.total_byte_size / max(group.num_rows, 1) for group in _groups(table))
    max_row_bytes = max(row_bytes, default=0)
    limit = min(batch_rows, MAX_BATCH_CELLS // max(len(table.schema_arrow.names), 1))
    return int(min(limit, max(1, batch_bytes // max(max_row_bytes, 1)))) or 1


def _small_texts(file: Any, batch_bytes: int) -> list[str]:
    """The text columns that may be read as dictionaries: small, in a suitable encoding."""
    from pyarrow import types

    checks = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    texts = [f.name for f in file.schema_arrow if any(check(f.type) for check in checks)]
    chunks = (group.column(n) for group in _groups(file) for n in range(group.num_columns))
    others = {
        chunk.path_in_schema
        for chunk in chunks
        if chunk.total_uncompressed_size > batch_bytes or any("DELTA" in e for e in chunk.encodings)
    }
    return [name for name in texts if name not in others]


def _groups(file: Any) -> list[Any]:
    return [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]


def _pieces(batch: Any, batch_bytes: int) -> Iterator[Any]:
    """Split a batch until the texts of each part are small enough."""
    if batch.num_rows < 2 or sum(map(_size, batch.columns)) <= batch_bytes:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _pieces(batch.slice(0, half), batch_bytes)
    yield from _pieces(batch.slice(half), batch_bytes)


def _size(column: Any) -> int:
    """The bytes of a column's values; repeated ones count each time."""
    from pyarrow import compute, types

    if not types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = compute.binary_length(column.dictionary)
    return int(compute.sum(lengths.take(column.indices)).as_py() or 0)


def _cell(value: object) -> str:
    if value is None or (isinstance(value, float) and isnan(value)):
        return ""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
