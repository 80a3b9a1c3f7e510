import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newsift.files import tables
from newsift.files.messages import FormatError
from newsift.files.read import lines
from newsift.files.tables import CP1252, Table, TableRow
from tests.newsift.files.test_read import pieces

CELLS = st.text(st.sampled_from("ab\",;\t|\r\né '"), max_size=6)
WILD = st.text(st.sampled_from('a",;\r\n'), max_size=30)


def read(
    content: bytes, size: int = 7, delimiter: str | None = None
) -> tuple[Table, list[TableRow]]:
    table = Table(lines(pieces(content, size), carriage_returns=True), delimiter)
    return table, [row for batch in table.batches() for row in batch]


@settings(max_examples=100)
@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=6), st.sampled_from(",;\t|"),
       st.sampled_from(["\n", "\r\n"]), st.integers(1, 50))  # fmt: skip
def test_reads_written_rows(rows: list[list[str]], delimiter: str, end: str, size: int) -> None:
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([["id", "text", "time"], *rows])
    table, result = read(out.getvalue().encode(), size)
    assert table.header == ["id", "text", "time"]
    assert [list(row.cells.values()) for row in result] == rows
    assert [row.raw.decode() for row in result] == [
        delimiter.join(f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in row) for row in rows
    ]


@settings(max_examples=100)
@given(WILD, st.integers(1, 20))
def test_wild_text_has_the_cells_that_csv_finds_or_a_fault(wild: str, size: int) -> None:
    content = f"x,y\n{wild}"
    expected: list[list[str]] = []
    reader = csv.reader(io.StringIO(content, newline="\n"), strict=True)
    try:
        for row in reader:
            expected.append(row)  # noqa: PERF402 - an error may end it
    except csv.Error:
        expected = []
    try:
        _, result = read(content.encode(), size, ",")
    except FormatError:
        assert not expected
        return
    if expected:
        good = [row for row in expected[1:] if len(row) == 2]
        assert [list(row.cells.values()) for row in result if not row.fault] == good
        assert any(row.fault for row in result) == any(len(row) not in (0, 2) for row in expected)
    else:
        assert any(row.fault for row in result)


def test_a_bad_row_costs_only_its_own_lines() -> None:
    _, result = read(b'id,text\n1,a\n2,"b"c\n3\n4,d,e\n5,"f\ng"\n6,h\n')
    assert [(row.number, row.fault) for row in result] == [
        (2, ""), (3, "is not CSV (',' expected after '\"')"), (4, "has 1 cells, the header 2"),
        (5, "has 3 cells, the header 2"), (6, ""), (8, ""),
    ]  # fmt: skip
    assert [row.raw for row in result if row.fault] == [b'2,"b"c', b"3", b"4,d,e"]
    _, result = read(b'id,text\n1,"a\nb\nc"d\n2,e\n')
    assert [(row.number, bool(row.fault)) for row in result] == [
        (2, True), (3, True), (4, True), (5, False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'id,text\n1,a\n2,"b\n3,c\n', "a quote that opens here is never closed"),
        (b'id,text\n1,"' + b"x" * 300, "a cell is too large"),
        (b'id,text\n1,"' + b"x\n" * 2000, "a row is longer than"),
        (b",".join(b"c%d" % n for n in range(1001)), "has 1,001 columns, more than 1,000"),
        (b"id,te\x81t\n\x81\n", "and should be a header"),
        (b"id,text\r1,a\r2,b\r", "a carriage return alone ends no line; save it with line feeds"),
    ],
)
def test_refuses_bad_tables(content: bytes, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_CELL_CHARS", 200 if b"xxx" in content else 2**20)
    monkeypatch.setattr(tables, "MAX_LINE_BYTES", 1000 if b"x\nx" in content else 2**24)
    with pytest.raises(FormatError, match=message):
        read(content, 2**16)


@pytest.mark.parametrize(
    ("content", "header", "cells"),
    [
        ("sep=;\r\nid;text\r\n1;a,b\r\n", ["id", "text"], ["1", "a,b"]),
        ("\r\n \n\nid;text\n1;a\n", ["id", "text"], ["1", "a"]),
        ("id\ttext\n1\ta b\n", ["id", "text"], ["1", "a b"]),
        ('"id","a;b;c;d"\n1,x\n', ["id", "a;b;c;d"], ["1", "x"]),
        ("\ufefftext\nonly\n", ["text"], ["only"]),
        (",text,text,\n0,a,b,c\n", ["column 1", "text", "text (3)", "column 4"],
         ["0", "a", "b", "c"]),
    ],
)  # fmt: skip
def test_headers(content: str, header: list[str], cells: list[str]) -> None:
    table, (row,) = read(content.encode())
    assert (table.header, list(row.cells.values())) == (header, cells)


@pytest.mark.parametrize(
    ("content", "texts", "faults"),
    [
        ("id,text\n1,café\n2,naïve “x”\n".encode("cp1252"), ["café", "naïve “x”"], []),
        ("id,text\n1,café\n".encode(), ["café"], []),
        ("id,text\n1,a\n2,é\n".encode() + b"3,\xe9\n4,\xc3\xa9\n", ["a", "é", "é"],
         ["is not UTF-8 at byte 3"]),
        (b"id,text\n1,\xe9\n2,\xe8\n3,\xc3\xa9\n", ["é", "è"], ["is UTF-8 in a file of Windows"]),
        (b"id,text\n1,\xe9\n2,\x81\n", ["é"], ["is neither UTF-8 nor Windows-1252 at byte 3"]),
        (b"id,text\n1,a\n2,b\0c\n", ["a"], ["holds a NUL byte"]),
    ],
)  # fmt: skip
def test_letters(content: bytes, texts: list[str], faults: list[str]) -> None:
    table, result = read(content, 2**16)
    assert [row.cells["text"] for row in result if not row.fault] == texts
    messages = [row.fault for row in result if row.fault]
    assert len(messages) == len(faults)
    assert all(message in fault for message, fault in zip(faults, messages, strict=True))
    assert (table.encoding == CP1252) == (b"1,\xe9" in content or b"caf\xe9" in content)
