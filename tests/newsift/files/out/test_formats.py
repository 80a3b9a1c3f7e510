"""Formats by the ending: which, when one is refused, and whole or not at all in each."""

import csv
import gzip
import io
import json
import os
import random
import sqlite3
import sys
import threading
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from encoder.errors import InputError
from newsift.files import sqlite, writers
from newsift.files.rows import IN_FILE, Layout, OutputRecord
from newsift.files.sqlite import database
from newsift.files.writers import (
    FORMATS,
    check_format,
    csv_table,
    format_by_ending,
    json_array,
    json_lines,
    parquet_table,
    record_writer,
    tsv_table,
)
from tests.newsift.files.out.records import output_record, wild_records
from worker.errors import OutputError

WILD = st.text(st.characters(exclude_categories=[]), max_size=8)  # lone surrogates and NUL too
ENDINGS = [*FORMATS, ".csv.gz", ".tsv.zst", ".jsonl.gz", ".json.zst"]


def rows_in(file: Path) -> int:
    """How many records of one match there are in a complete file; an error if it is not."""
    content = file.read_bytes()
    if file.suffix == ".gz":
        content = gzip.decompress(content)
    elif file.suffix == ".zst":
        content = zstandard.ZstdDecompressor().decompressobj().decompress(content)
    ending = file.suffixes[0]
    if ending == ".db":
        with closing(sqlite3.connect(file)) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            return int(db.execute("SELECT count(*) FROM matches").fetchone()[0])
    if ending == ".parquet":
        return int(pyarrow.parquet.read_table(file).num_rows)
    if ending == ".json":
        return len(json.loads(content))
    if ending == ".jsonl":
        return len([json.loads(line) for line in content.splitlines()])
    delimiter = "\t" if ending == ".tsv" else ","
    return len(list(csv.DictReader(io.StringIO(content.decode(), newline=""), delimiter=delimiter)))


def write(
    file: Path, batches: Sequence[Sequence[OutputRecord]], failure: BaseException | None = None
) -> None:
    form = format_by_ending(file)
    assert form is not None
    with record_writer(file, form, Layout(IN_FILE)) as add:
        for batch in batches:
            add(batch)
        if failure is not None:
            raise failure


def random_texts(start: int) -> list[OutputRecord]:
    """Records that nothing packs well, so that a pipe is full soon."""
    dice = random.Random(start)
    return [output_record(n, dice.randbytes(4000).hex()) for n in range(start, start + 40)]


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("m.csv", csv_table), ("M.CSV.GZ", csv_table), ("m.tsv.zst", tsv_table),
        ("m.jsonl", json_lines), ("m.json.gz", json_array), ("a.csv/m.json", json_array),
        ("m.parquet", parquet_table), ("a.b.db", database),
        *((name, None) for name in ("m", "m.txt", "m.gz", "csv", ".csv", "-", "m.csv.bz2")),
    ],
)  # fmt: skip
def test_the_ending_tells_the_format(name: str, form: object) -> None:
    assert format_by_ending(Path(name)) is form


@pytest.mark.parametrize("ending", ENDINGS)
def test_ctrl_c_completes_what_was_found(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"m{ending}"
    file.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        write(
            file,
            [[output_record(1, "a")], [output_record(2, "b"), output_record(3, "c")]],
            KeyboardInterrupt(),
        )
    assert rows_in(file) == 3
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_error_leaves_the_old_file(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"m{ending}"
    file.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError):
        write(file, [wild_records()], ZeroDivisionError())
    assert file.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("ending", [ending for ending in ENDINGS if ending != ".db"])
def test_a_full_disk_is_one_line(tmp_path: Path, ending: str) -> None:
    link = tmp_path / f"m{ending}"
    link.symlink_to("/dev/full")
    with pytest.raises(OutputError, match=r"cannot be written \(No space left on device\)$"):
        write(link, [wild_records()] * 20)


@pytest.mark.parametrize("ending", [ending for ending in ENDINGS if ending != ".db"])
def test_a_pipe_is_written_through_and_its_reader_may_leave(tmp_path: Path, ending: str) -> None:
    pipe, copy = tmp_path / f"m{ending}", tmp_path / f"copy{ending}"
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: copy.write_bytes(pipe.read_bytes()))
    reader.start()
    write(pipe, [[output_record(1, "a")], [output_record(2, "b")]])
    reader.join()
    assert rows_in(copy) == 2
    reader = threading.Thread(target=lambda: pipe.open("rb").close())
    reader.start()
    with pytest.raises(BrokenPipeError):
        write(pipe, [random_texts(n) for n in range(0, 4000, 40)])
    reader.join()
    assert pipe.is_fifo()


def test_a_full_disk_is_one_line_of_a_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "SETTINGS", f"PRAGMA max_page_count = 30; {sqlite.SETTINGS}")
    (tmp_path / "m.db").write_bytes(b"old")
    with pytest.raises(OutputError, match=r"m.db: cannot be written \(database or disk is full\)$"):
        write(tmp_path / "m.db", [[output_record(n, f"{n} " * 500) for n in range(200)]])
    assert (tmp_path / "m.db").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["m.db"]


def no_fts5(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect

    def poor(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        db: sqlite3.Connection = connect(*args, **kwargs)
        db.set_authorizer(lambda action, *_: int(action == sqlite3.SQLITE_CREATE_VTABLE))
        return db

    monkeypatch.setattr(sqlite3, "connect", poor)


def no_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)


@pytest.mark.parametrize(
    ("name", "missing", "message"),
    [
        ("m.db", no_fts5, "has no full text search .FTS5.; name a file"),
        ("m.parquet", no_pyarrow, r"Parquet needs pyarrow: pip install 'newsift\[parquet\]'"),
        ("m.db.gz", None, "m.db.gz: is packed by itself, if at all; leave .gz out"),
        ("m.parquet.zst", None, "leave .zst out"),
        ("m.xlsx", None, r"m.xlsx: is of no known format; end it with .csv .tsv .jsonl .json "),
        ("m.XLSX.gz", None, r"is of no known .* [(].gz and .zst after .csv .tsv .jsonl .json[)]$"),
        ("m.gz", None, "is of no known format"),
        ("null.db", None, "a database cannot be written through; name a regular file"),
    ],
)
def test_what_cannot_be_done_is_refused_before_any_work(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    missing: Callable[[pytest.MonkeyPatch], None] | None,
    message: str,
) -> None:
    (tmp_path / "null.db").symlink_to("/dev/null")
    if missing:
        missing(monkeypatch)
    with pytest.raises(InputError, match=message):
        check_format("--out", tmp_path / name)


@pytest.mark.parametrize("name", ["matches", "m.TXT", ".m", "m.CSV.zst", "m.jsonl.gz", "null.xlsx"])
def test_what_is_written_is_allowed(tmp_path: Path, name: str) -> None:
    (tmp_path / "null.xlsx").symlink_to("/dev/null")  # a device is written through
    check_format("--out", tmp_path / name)


@pytest.mark.parametrize("ending", [ending for ending in FORMATS if "json" not in ending])
def test_a_table_refuses_too_many_columns(tmp_path: Path, ending: str) -> None:
    own, file = [f"c{n}" for n in range(1001)], tmp_path / f"m{ending}"
    message = "has 1,001 columns; a table keeps 1,000 at most: leave some out, or"
    with (
        pytest.raises(InputError, match=message),
        record_writer(file, FORMATS[ending], Layout(IN_FILE, own=own)),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", FORMATS)
def test_a_thousand_columns_are_kept(tmp_path: Path, ending: str) -> None:
    own = {f"c{n}": str(n) for n in range(1000)}
    file = tmp_path / f"m{ending}"
    with record_writer(file, FORMATS[ending], Layout(IN_FILE, own=list(own))) as add:
        add([output_record(1, "a", columns=own)])
    assert rows_in(file) == 1


@pytest.mark.parametrize("ending", FORMATS)
def test_a_record_of_many_matches_and_a_long_text_takes_little_memory(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows take 10 MB, each with the text."""
    monkeypatch.setattr(writers, "GROUP_CHARACTERS", 2**19)
    long = output_record(1, "x" * 10**5, *(f"seed {n}" for n in range(100)))
    write(
        tmp_path / f"m{ending}", [[output_record(1, "a")]]
    )  # what is imported at first does not count
    tracemalloc.start()
    with record_writer(tmp_path / f"m{ending}", FORMATS[ending], Layout(IN_FILE, "match")) as add:
        add([long])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * 10**6
    assert rows_in(tmp_path / f"m{ending}") == 100


@given(st.dictionaries(WILD, WILD, max_size=6), WILD.filter(lambda text: text.isprintable()))
def test_no_column_and_no_text_breaks_any_format(
    tmp_path_factory: pytest.TempPathFactory, own: dict[str, str], text: str
) -> None:
    folder = tmp_path_factory.mktemp("wild")
    for ending, form in FORMATS.items():
        with record_writer(folder / f"m{ending}", form, Layout(IN_FILE, own=list(own))) as add:
            add([output_record(1, text, columns=own), output_record(2, text)])
        assert rows_in(folder / f"m{ending}") == 2
