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
            self._file: Any = ParquetFile(file)
            self.header: list[str] = list(self._file.schema_arrow.names)
            self.rows = int(self._file.metadata.num_rows)
        except self._faults as error:
            raise self._damaged(error) from error
        if len(self.header) > MOST_COLUMNS or len(set(self.header)) < len(self.header):
            many = f"{len(self.header):,} columns ({listed(self.header)})"
            raise FormatError(f"has {many}, too many or two of one name; write fewer")

    def batches(self) -> Iterator[list[dict[str, object]]]:
        """The rows, as many at a time as are read at once."""
        try:
            for batch in self._file.iter_batches(batch_size=BATCH_ROWS):
                yield batch.to_pylist()
        except self._faults as error:
            raise self._damaged(error) from error
        finally:
            self._file.close()

    def _damaged(self, error: Exception) -> FormatError:
        return FormatError(f"the Parquet is damaged or cut off ({error}); write it anew")


def _refuse_packed(file: Path) -> None:
    with file.open("rb") as raw:
        if raw.read(len(MAGIC)) != MAGIC:
            raise FormatError("is no Parquet, or it is packed; give it unpacked")


def as_cell(value: object) -> str:
    """A value as a cell of text; what is nested as JSON."""
    if value is None:
        return ""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
