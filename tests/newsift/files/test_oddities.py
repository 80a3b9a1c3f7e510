import json
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from encoder.errors import InputError
from newsift.files.messages import FileMessage, text_id
from newsift.files.posts import open_inputs
from newsift.files.tables import FileOptions
from worker.config.limits import DEFAULT_LIMITS
from worker.posts.outcome import Post

NAIVE = "2013-04-15 18:01:10"
READ_AS_UTC = "times without an offset in 'created_at', read as UTC: "


def read(file: Path, **options: Any) -> tuple[list[FileMessage], list[str]]:
    messages: list[str] = []
    (one,) = open_inputs([file], FileOptions(**options), DEFAULT_LIMITS, messages.append)
    messages.clear()
    return [each for batch in one for each in batch], messages


def times(rows: list[FileMessage]) -> list[str | None]:
    return [each.reading.created_at for each in rows if isinstance(each.reading, Post)]


def written(folder: Path, form: str, *moments: str) -> Path:
    file = folder / f"posts.{form}"
    rows = [{"id": str(n), "text": f"post {n}", "created_at": at} for n, at in enumerate(moments)]
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), file)
    elif form == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        file.write_text("\n".join([",".join(rows[0]), *(",".join(row.values()) for row in rows)]))
    return file


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_times_without_an_offset_are_utc_and_counted(tmp_path: Path, form: str) -> None:
    file = written(tmp_path, form, NAIVE, "2013-04-15", "2013-04-15T18:01:10-05:00", "soon")
    rows, messages = read(file)
    assert times(rows) == ["2013-04-15T18:01:10Z", "2013-04-15T00:00:00Z", "2013-04-15T23:01:10Z",
                           None]  # fmt: skip
    naive, unreadable = messages
    assert naive == f"posts.{form}: {READ_AS_UTC}2 (--timezone Europe/Berlin says otherwise)"
    assert unreadable.startswith(
        f"posts.{form}: times that cannot be read in 'created_at', left out: 1, such as 'soon' ("
    )
    moment = datetime.fromisoformat("2013-04-15T18:01:10Z").timestamp()
    assert rows[0].timestamp == moment * 1000


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_reads_times_in_the_given_time_zone(tmp_path: Path, form: str) -> None:
    moments = ("2026-01-31 12:00:00", "2026-07-31 12:00:00", "2026-07-31T12:00:00Z")
    rows, messages = read(written(tmp_path, form, *moments), timezone="Europe/Berlin")
    expected = ["2026-01-31T11:00:00Z", "2026-07-31T10:00:00Z", "2026-07-31T12:00:00Z"]
    assert (times(rows), messages) == (expected, [])
    assert [json.loads(row.value)["created_at"] for row in rows] == expected  # what `replay` sends


def test_an_hour_that_occurs_twice_or_not_at_all(tmp_path: Path) -> None:
    twice, never = "2026-10-25 02:30:00", "2026-03-29 02:30:00"
    rows, _ = read(written(tmp_path, "csv", twice, never), timezone="Europe/Berlin")
    assert times(rows) == ["2026-10-25T00:30:00Z", "2026-03-29T01:30:00Z"]
    shown = datetime.fromisoformat("2026-03-29T01:30:00Z").astimezone(ZoneInfo("Europe/Berlin"))
    assert shown.hour == 3


@pytest.mark.parametrize("name", ["Mars", "", "Europe", "../etc/passwd", "a\0b", "a" * 5000])
def test_refuses_what_is_no_time_zone(name: str) -> None:
    with pytest.raises(InputError, match=r"^--timezone .*: there is no such time zone; give one"):
        FileOptions(timezone=name)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("id", ["3.25292E+17", "3,25292E+17", "1e+18"])
def test_rounded_ids_are_replaced_by_digests_of_texts(tmp_path: Path, form: str, id: str) -> None:
    file = tmp_path / f"a.{form}"
    if form == "csv":
        file.write_text(f'id,text\n"{id}",one\n"{id}",two\n7e5,three\n')
    else:
        rows = [(id, "one"), (id, "two"), ("7e5", "three")]
        file.write_text("".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in rows))
    result, messages = read(file)
    expected = [text_id("one"), text_id("two"), "7e5"]
    assert [each.reading.id for each in result if isinstance(each.reading, Post)] == expected
    assert [json.loads(each.value)["id"] for each in result] == expected
    assert [each.key for each in result] == [name.encode() for name in expected]
    (message,) = messages
    assert message.startswith(
        f"a.{form}: ids that a spreadsheet has rounded in 'id': 2, such as {id!r} ("
    )
