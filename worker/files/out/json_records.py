"""JSON: a record a line, or all of them in one array."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO

import msgspec

from worker.files.cells import Cell
from worker.files.matches import json_line
from worker.files.out.rows import Add, Finding, Layout, storable


@contextmanager
def json_lines(out: IO[bytes], layout: Layout) -> Iterator[Add]:
    """The worker's own records, a line each, or a flat object for each match."""

    def add(found: Sequence[Finding]) -> None:
        for line in _objects(found, layout):
            out.write(line + b"\n")

    yield add


@contextmanager
def json_array(out: IO[bytes], layout: Layout) -> Iterator[Add]:
    """The same, as one array."""
    before = b"[\n"

    def add(found: Sequence[Finding]) -> None:
        nonlocal before
        for line in _objects(found, layout):
            out.write(before + line)
            before = b",\n"

    yield add
    out.write(b"[]\n" if before == b"[\n" else b"\n]\n")


def _objects(found: Sequence[Finding], layout: Layout) -> Iterator[bytes]:
    for each in found:
        if layout.per != "match":
            yield json_line(_with_columns(each))
            continue
        for row in layout.rows(each):
            yield json_line(_encoded(dict(zip(layout.names, row, strict=True))))


def _with_columns(found: Finding) -> bytes:
    """The record as the worker wrote it, and before its last brace the post's own columns."""
    if not found.columns:
        return found.value
    return found.value.rstrip()[:-1] + b',"columns":' + _encoded(found.columns) + b"}"


def _encoded(cells: Mapping[str, Cell]) -> bytes:
    return msgspec.json.encode({storable(name): storable(cell) for name, cell in cells.items()})
