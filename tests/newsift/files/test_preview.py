from pathlib import Path

import pytest

from encoder.errors import InputError
from newsift.files.preview import SHOWN_ROWS, FilePreview, preview
from newsift.files.tables import FileOptions
from worker.config.limits import DEFAULT_LIMITS

TABLE = """User;Was;Wann
ann;eins;15/04/2013
bob;"zwei
Zeilen";2013-04-15 10:00
cem;;2013-04-15 11:00
half;a
"""
GUESSED = FileOptions()
CHOSEN = FileOptions(text="Was", time="Wann", timezone="Europe/Berlin")


def shown(
    folder: Path, content: str | bytes, options: FileOptions = GUESSED, name: str = "a.csv"
) -> FilePreview:
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return preview(file, options, DEFAULT_LIMITS, 60.0)


def test_rows_columns_and_what_is_left_out(tmp_path: Path) -> None:
    result = shown(tmp_path, TABLE, CHOSEN)
    assert result.header == ["User", "Was", "Wann"]
    assert result.columns == {
        "text": "Was", "id": None, "time": "Wann", "author": "User", "link": None,
    }  # fmt: skip
    assert result.rows[1] == ["bob", "zwei\nZeilen", "2013-04-15 10:00"]
    assert result.first_time == ("2013-04-15 10:00", "2013-04-15T08:00:00Z")
    counts = result.read, result.posts, result.without_text, result.bad, result.other
    assert counts == (4, 2, 1, 1, 0)
    assert result.bad_example.startswith("line 6: ")
    (warning,) = result.warnings
    assert "15/04/2013" in warning


def test_a_column_of_texts_that_is_not_found_is_to_be_chosen(tmp_path: Path) -> None:
    result = shown(tmp_path, TABLE)
    assert (result.names_text, result.columns["text"], result.posts) == (False, None, 0)
    assert result.columns["author"] == "User"
    assert result.rows[0] == ["ann", "eins", "15/04/2013"]


def test_a_column_of_times_that_is_not_found_is_named(tmp_path: Path) -> None:
    (warning,) = shown(tmp_path, "text,wann\na,2013-04-15T18:01:10Z\n").warnings
    assert warning.startswith("no column of times was found")
    assert shown(tmp_path, "text,wann\na,b\n", FileOptions(time="")).warnings == []


def test_a_column_can_be_none(tmp_path: Path) -> None:
    table = "id,text,date,user,url,place\n1,a,2013-04-15,ann,https://a.example/1,b\n"
    none = FileOptions(id="", time="", author="place", link="")
    result = shown(tmp_path, table, none)
    assert result.columns == {
        "text": "text", "id": None, "time": None, "author": "place", "link": None,
    }  # fmt: skip
    usual = shown(tmp_path, table).columns
    assert usual == {"text": "text", "id": "id", "time": "date", "author": "user", "link": "url"}


def test_other_files_have_no_columns_to_choose(tmp_path: Path) -> None:
    lines = '{"id": "1", "text": "a", "created_at": "2013-04-15T10:00:00Z"}\n{"x": 1}\n'
    result = shown(tmp_path, lines, name="a.jsonl")
    assert (result.header, result.posts, result.bad) == ([], 1, 1)
    assert result.rows == [["1", "2013-04-15T10:00:00Z", "", "", "a"], ['{"x": 1}']]


def test_reading_stops_in_time_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("text\n" + "a word or two\n" * 100_000, "utf-8")
    result = preview(file, FileOptions(), DEFAULT_LIMITS, 0.0)
    assert len(result.rows) == SHOWN_ROWS <= result.read == result.posts < 100_000
    assert not result.is_whole
    assert preview(file, FileOptions(), DEFAULT_LIMITS, 60.0).is_whole


@pytest.mark.parametrize(
    "content",
    [b"\x89PNG\0\0", b"PK\x03\x04", b"ferry burns,12,4\n", b"a line of prose\n", b"\xff\xfe\x00"],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError, match=r"a\.csv"):
        shown(tmp_path, content)
