"""CSV and TSV: what was written is what Python's csv reads, and no cell of it is a formula."""

import csv
from pathlib import Path

import pytest

from tests.newsift.files.out.records import OWN, expected, output_record, wild_records, write

FORMULA = tuple("=+-@＝＋－＠")


def read(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t" if file.suffix == ".tsv" else ","))


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_a_row_a_match_holds_the_record(tmp_path: Path, ending: str) -> None:
    records, file = wild_records(), tmp_path / f"m{ending}"
    write(file, records[:3], [], records[3:])
    rows = read(file)
    expected_rows = [expected(each, index) for each in records for index in (0, 1)]
    assert len(rows) == len(expected_rows) == 20
    for row, cells in zip(rows, expected_rows, strict=True):
        cells = {name: "" if cell is None else str(cell) for name, cell in cells.items()}
        assert {name: cell.replace("'", "") for name, cell in row.items()} == cells


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_no_cell_runs(tmp_path: Path, ending: str) -> None:
    own, file = OWN | {"=1+1": "+2+2"}, tmp_path / f"m{ending}"
    write(file, wild_records(own), own=own)
    cells = [cell for row in read(file) for pair in row.items() for cell in pair]
    assert "'=1+1" in cells
    assert [cell for cell in cells if cell.strip("\0\t\r\n ").startswith(FORMULA)] == []


def test_a_row_a_post_holds_its_best_match_and_all_events(tmp_path: Path) -> None:
    each, file = output_record(3, "text", "dam", "ferry"), tmp_path / "m.csv"
    write(file, [each], per="post")
    (row,) = read(file)
    assert row.pop("events") == "event of dam; event of ferry"
    assert row == {name: str(cell or "") for name, cell in expected(each).items()}


def test_the_user_s_columns_are_kept_under_their_names(tmp_path: Path) -> None:
    file = tmp_path / "m.csv"
    write(file, [output_record(1, "ours", columns=OWN)], own=OWN)
    (row,) = read(file)
    assert list(row)[-4:] == ["likes", "input_Text", "name", "input_post_key"]
    assert (row["likes"], row["input_Text"], row["text"]) == ("12", "'=as given", "ours")
    assert row["name"] == "? \0"


def test_without_matches_there_is_a_header(tmp_path: Path) -> None:
    write(tmp_path / "m.csv")
    text = (tmp_path / "m.csv").read_text("utf-8")
    assert text.startswith("match_id,score,threshold,event,")
    assert text.count("\n") == 1
