"""Parquet: rows in groups of so many, so that memory stays bounded."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from encoder.errors import InputError
from worker.files.cells import Cell
from worker.files.out.rows import Add, Finding, Layout, storable

GROUP_CELLS = 2**18
GROUP_CHARACTERS = 2**24
NUMBERS = {"score": "float64", "threshold": "float64", "matched": "int64", "line": "int64"}


@contextmanager
def parquet_table(out: IO[bytes], layout: Layout) -> Iterator[Add]:
    """The rows of a table; numbers of ours are numbers, all else is text."""
    import pyarrow.parquet

    kinds = [NUMBERS.get(name, "string") for name in layout.ours]
    kinds += ["string"] * len(layout.own)
    schema = pyarrow.schema(list(zip(layout.names, kinds, strict=True)))
    with pyarrow.parquet.ParquetWriter(out, schema) as writer:
        group = _Group(writer, schema)

        def add(found: Sequence[Finding]) -> None:
            for each in found:
                for row in layout.rows(each):
                    group.add(row)

        yield add
        group.write()


def check_parquet(option: str) -> None:
    """Refuse Parquet where the library that writes it is missing."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"{option}: Parquet needs pyarrow: pip install 'newsift[parquet]', or name a file that "
            "ends in .csv, .jsonl or .db"
        ) from error


class _Group:
    """Rows that wait until they are enough to be written."""

    def __init__(self, writer: Any, schema: Any) -> None:
        self._writer, self._schema = writer, schema
        self._rows: list[list[Cell]] = []
        self._characters = 0

    def add(self, row: Sequence[Cell]) -> None:
        """Keep a row, and write all when they are many."""
        self._rows.append([storable(cell) for cell in row])
        self._characters += sum(len(cell) for cell in row if isinstance(cell, str))
        cells = len(self._rows) * len(row)
        if cells >= GROUP_CELLS or self._characters >= GROUP_CHARACTERS:
            self.write()

    def write(self) -> None:
        """Write what waits as a group."""
        import pyarrow

        if not self._rows:
            return
        columns = [
            pyarrow.array(cells, field.type)
            for cells, field in zip(zip(*self._rows, strict=True), self._schema, strict=True)
        ]
        self._writer.write_table(pyarrow.Table.from_arrays(columns, schema=self._schema))
        self._rows, self._characters = [], 0
