"""Parquet: pyarrow reads back what the records said, in groups of bounded size."""

from pathlib import Path

import pyarrow.parquet
import pytest

from newsift.files import writers
from tests.newsift.files.out.records import OWN, expected, output_record, wild_records, write


def test_a_row_a_match_holds_the_record(tmp_path: Path) -> None:
    records, file = wild_records(), tmp_path / "m.parquet"
    write(file, records[:3], records[3:])
    table = pyarrow.parquet.read_table(file)
    assert table.to_pylist() == [expected(each, index) for each in records for index in (0, 1)]
    kinds = {field.name: str(field.type) for field in table.schema}
    numbers = {name: kind for name, kind in kinds.items() if kind != "string"}
    assert numbers == {
        "score": "double", "threshold": "double", "matched": "int64", "line": "int64"
    }  # fmt: skip


@pytest.mark.parametrize(("limit", "most"), [("GROUP_CELLS", 4 * 21), ("GROUP_CHARACTERS", 700)])
def test_groups_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(writers, limit, most)
    write(tmp_path / "m.parquet", [output_record(n, f"post {n}") for n in range(1, 12)])
    file = pyarrow.parquet.ParquetFile(tmp_path / "m.parquet")
    sizes = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
    assert sum(sizes) == 11
    assert max(sizes) <= 4
    assert file.read().column("text").to_pylist() == [f"post {n}" for n in range(1, 12)]


def test_the_user_s_columns_are_text(tmp_path: Path) -> None:
    own = OWN | {"score": "7"}
    write(
        tmp_path / "m.parquet",
        [output_record(1, "ours", columns=own), output_record(2, "none")],
        own=own,
    )
    one, two = pyarrow.parquet.read_table(tmp_path / "m.parquet").to_pylist()
    assert (one["likes"], one["input_Text"], one["text"]) == ("12", "=as given", "ours")
    assert (one["input_score"], one["score"], one["name"]) == ("7", 0.5, "? \0")
    assert [two[name] for name in ("likes", "input_Text", "name", "input_score")] == [None] * 4


def test_a_number_beyond_all_bounds_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "m.parquet", [output_record(2**70, "far away")])
    (row,) = pyarrow.parquet.read_table(tmp_path / "m.parquet").to_pylist()
    assert (row["line"], row["text"]) == (None, "far away")


def test_without_matches_it_has_its_columns(tmp_path: Path) -> None:
    write(tmp_path / "m.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "m.parquet")
    assert (table.num_rows, table.column_names[:2]) == (0, ["match_id", "score"])
