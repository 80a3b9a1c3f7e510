"""Reads the rows of Parquet files, with the extra `parquet`."""

import json
from collections.abc import Iterator
from datetime import date
from math import isnan
from pathlib import Path
from typing import Any

from newsift.files.messages import FormatError
from newsift.files.read import DASH, MAX_LINE_BYTES, TOO_LONG
from newsift.files.tables import MAX_COLUMNS, TableRow, list_names

MAGIC = b"PAR1"
MAX_BATCH_ROWS = 1024
MAX_BATCH_CELLS = 2**17
MAX_BATCH_BYTES = 2**22  # of texts; repeated ones count each time
# Reads page by page instead of whole row groups.
READ_OPTIONS: dict[str, Any] = {"pre_buffer": False, "buffer_size": 2**18}


class ParquetTable:
    unit, place = "row", ""  # of a row; and of the header, which has none

    def __init__(self, file: Path) -> None:
        if file == DASH or not file.is_file():
            raise FormatError("Parquet is read from its end; give it as a file, unpacked")
        with file.open("rb") as raw:
            if raw.read(len(MAGIC)) != MAGIC:
                raise FormatError("is not Parquet, or it is packed; give it unpacked")
        try:
            from pyarrow import ArrowException, types
            from pyarrow.parquet import ParquetFile
        except ModuleNotFoundError:
            message = "Parquet needs pyarrow; install newsift with its extra: newsift[parquet]"
            raise FormatError(message) from None
        self._errors = (ArrowException, OSError, ValueError)
        try:
            with ParquetFile(file, **READ_OPTIONS) as parquet:
                texts = _small_texts(parquet, MAX_BATCH_BYTES)
            # Repeated texts of these columns are held only once.
            self._table = ParquetFile(file, read_dictionary=texts, **READ_OPTIONS)
            schema = self._table.schema_arrow
        except self._errors as error:
            raise _damage(error) from error
        self.header, self.rows = list(schema.names), max(int(self._table.metadata.num_rows), 1)
        self._nested_types = {f.name: str(f.type) for f in schema if types.is_nested(f.type)}
        if len(self.header) > MAX_COLUMNS or len(set(self.header)) < len(self.header):
            columns = f"{len(self.header):,} columns ({list_names(self.header)})"
            raise FormatError(f"has {columns}, too many or two of one name; write fewer")

    def refuse_nested(self, name: str) -> None:
        """Raises FormatError for a column of lists or structures."""
        if type_ := self._nested_types.get(name):
            raise FormatError(f"{name!r} holds {type_}, no texts; name others with --text-column")

    def batches(self) -> Iterator[list[TableRow]]:
        size = _batch_rows(self._table, MAX_BATCH_ROWS, MAX_BATCH_BYTES)
        batches, number = self._table.iter_batches(batch_size=size, use_threads=False), 1
        try:
            for batch in batches:
                for piece in _pieces(batch, MAX_BATCH_BYTES) if batch.num_rows else ():
                    rows = [self._row(n, cells) for n, cells in enumerate(_rows(piece), number)]
                    number += len(rows)
                    yield rows
        except self._errors as error:
            raise _damage(error) from error

    def _row(self, number: int, cells: list[str] | None) -> TableRow:
        if cells is None:
            return TableRow(number, b"", {}, TOO_LONG)
        return TableRow(number, b"", dict(zip(self.header, cells, strict=True)))


def _damage(error: Exception) -> FormatError:
    return FormatError(f"the Parquet is damaged or cut off ({error}); write it again")


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
