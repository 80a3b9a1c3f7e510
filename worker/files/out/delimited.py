"""Tables of text: CSV and TSV, safe to open in a spreadsheet."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import IO

from worker.files.cells import Cell, csv_row
from worker.files.out.rows import Add, Finding, Layout
from worker.files.write import is_terminal


@contextmanager
def _table(out: IO[bytes], layout: Layout, delimiter: str) -> Iterator[Add]:
    terminal, ours = is_terminal(out), len(layout.ours)

    def line(cells: Sequence[Cell]) -> bytes:
        row = csv_row(cells[:ours], terminal, delimiter, cells[ours:])
        return row.encode("utf-8", "replace")

    def add(found: Sequence[Finding]) -> None:
        for each in found:
            for row in layout.rows(each):  # one by one: a record may have many, all with its text
                out.write(line(row))

    out.write(line(layout.names))
    yield add


csv_table = partial(_table, delimiter=",")
tsv_table = partial(_table, delimiter="\t")
