"""JSON: the worker's own records, or flat objects, on lines of their own or in one valid array."""

import json
from pathlib import Path

import pytest

from tests.newsift.files.out.records import OWN, expected, wild_records, write


def test_a_line_a_post_is_the_record(tmp_path: Path) -> None:
    records, file = wild_records(), tmp_path / "m.jsonl"
    write(file, records[:1], records[1:])
    lines = file.read_bytes().split(b"\n")
    assert lines.pop() == b""
    assert [json.loads(line) for line in lines] == [json.loads(each.value) for each in records]
    assert b"\x1b" not in file.read_bytes()


@pytest.mark.parametrize("cuts", [(0, 0), (0, 10), (3, 4), (10, 10)])
def test_an_array_holds_the_same(tmp_path: Path, cuts: tuple[int, int]) -> None:
    records, (first, second) = wild_records(), cuts
    write(tmp_path / "m.json", records[:first], records[first:second], records[second:])
    assert json.loads((tmp_path / "m.json").read_bytes()) == [
        json.loads(each.value) for each in records
    ]


def test_an_array_of_nothing(tmp_path: Path) -> None:
    write(tmp_path / "m.json", [])
    assert json.loads((tmp_path / "m.json").read_bytes()) == []


def test_an_object_a_match_has_the_columns_of_the_tables(tmp_path: Path) -> None:
    records, file = wild_records(), tmp_path / "m.json"
    write(file, records, per="match")
    expected_rows = [expected(each, index) for each in records for index in (0, 1)]
    assert json.loads(file.read_bytes()) == expected_rows


def test_the_user_s_columns_are_a_key_of_their_own(tmp_path: Path) -> None:
    records, file = wild_records(OWN), tmp_path / "m.jsonl"
    write(file, records, own=OWN)
    rows = [json.loads(line) for line in file.read_text("utf-8").split("\n")[:-1]]
    for row, each in zip(rows, records, strict=True):
        own = row.pop("columns")
        assert row == json.loads(each.value)
        assert own == {"likes": "12", "Text": "=as given", "na\0me ?": "? \0", "post_key": "7"}
