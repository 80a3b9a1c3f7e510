"""Parquet, with the extra `parquet`: rows by the names of their columns, batch by batch."""

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from worker.files.formats.columns import listed
from worker.files.formats.tables import MOST_COLUMNS
from worker.files.messages import FormatError
from worker.files.read import DASH

MAGIC = b"PAR1"
BATCH_ROWS = 1024
BATCH_BYTES = 2**25  # of the texts in a batch, however often a file may say the same one


class ParquetTable:
    """A table in a file of Parquet."""

    def __init__(self, file: Path) -> None:
        if file == DASH or not file.is_file():
            raise FormatError("Parquet is read from its end; give it as a file, unpacked")
        _refuse_packed(file)
        try:
            import pyarrow
            from pyarrow.parquet import ParquetFile
        except ImportError as error:
            told = "Parquet needs pyarrow; install newsift with its extra: newsift[parquet]"
            raise FormatError(told) from error
        self._faults = (pyarrow.ArrowException, OSError, ValueError)
        try:
            with ParquetFile(file) as written:
                texts = _small_texts(written)
            # A text that is there many times is kept once, until it is told row by row.
            self._file: Any = ParquetFile(file, read_dictionary=texts)
            self.header: list[str] = list(self._file.schema_arrow.names)
            self.rows = int(self._file.metadata.num_rows)
        except self._faults as error:
            raise self._damaged(error) from error
        if len(self.header) > MOST_COLUMNS or len(set(self.header)) < len(self.header):
            many = f"{len(self.header):,} columns ({listed(self.header)})"
            raise FormatError(f"has {many}, too many or two of one name; write fewer")

    def refuse_nested(self, name: str) -> None:
        """Refuse a column whose values are lists or structures, and so no texts."""
        from pyarrow import types

        kind = self._file.schema_arrow.field(name).type
        if types.is_nested(kind):
            raise FormatError(f"{name!r} holds {kind}, no texts; name others with --text-column")

    def batches(self) -> Iterator[list[dict[str, str]]]:
        """The rows in cells of text, as many at a time as are read at once."""
        try:
            for batch in self._file.iter_batches(batch_size=self._batch_rows()):
                for piece in _pieces(batch):
                    rows = piece.to_pylist()
                    yield [{name: _cell(value) for name, value in row.items()} for row in rows]
        except self._faults as error:
            raise self._damaged(error) from error
        finally:
            self._file.close()

    def _batch_rows(self) -> int:
        """As many rows as fit a batch, by what a row of the largest group takes."""
        of_groups = (each.total_byte_size / max(each.num_rows, 1) for each in _groups(self._file))
        row = max(of_groups, default=0)
        return int(min(BATCH_ROWS, max(1, BATCH_BYTES // max(row, 1))))

    def _damaged(self, error: Exception) -> FormatError:
        return FormatError(f"the Parquet is damaged or cut off ({error}); write it anew")


def _refuse_packed(file: Path) -> None:
    with file.open("rb") as raw:
        if raw.read(len(MAGIC)) != MAGIC:
            raise FormatError("is no Parquet, or it is packed; give it unpacked")


def _small_texts(file: Any) -> list[str]:
    """The columns of texts and of bytes that are small as they are written, in each group."""
    from pyarrow import types

    kinds = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    texts = [f.name for f in file.schema_arrow if any(is_kind(f.type) for is_kind in kinds)]
    chunks = (group.column(n) for group in _groups(file) for n in range(group.num_columns))
    large = {each.path_in_schema for each in chunks if each.total_uncompressed_size > BATCH_BYTES}
    return [name for name in texts if name not in large]


def _groups(file: Any) -> list[Any]:
    return [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]


def _pieces(batch: Any) -> Iterator[Any]:
    """A batch in so many parts that the texts of each take no more than they may."""
    if batch.num_rows < 2 or sum(map(_size, batch.columns)) <= BATCH_BYTES:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _pieces(batch.slice(0, half))
    yield from _pieces(batch.slice(half))


def _size(column: Any) -> int:
    """The bytes of a column's values, each as often as it is there."""
    from pyarrow import compute, types

    if not types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = compute.binary_length(column.dictionary)
    return int(compute.sum(lengths.take(column.indices)).as_py() or 0)


def _cell(value: object) -> str:
    """A value as a cell of text; what is nested as JSON."""
    if value is None:
        return ""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
