import datetime
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from encoder.errors import InputError
from newsift.files import parquet
from newsift.files.messages import FileMessage
from newsift.files.posts import open_inputs
from newsift.files.tables import FileOptions
from worker.config.limits import DEFAULT_LIMITS
from worker.posts.outcome import Post

TIME = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


def read(file: Path) -> list[list[FileMessage]]:
    (one,) = open_inputs([file], FileOptions(), DEFAULT_LIMITS)
    return list(one)


def write(file: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), file, row_group_size=5)
    return file


def test_rows_are_posts_with_their_columns(tmp_path: Path) -> None:
    file = write(tmp_path / "a", id=[1580000000000000001, None], text=["a", "b"],
                 created_at=[TIME, None], tags=[["x"], []], more=[None, 1.5])  # fmt: skip
    ((one, two),) = read(file)
    assert one.reading == Post(
        id="1580000000000000001", platform="plain", text="a",
        created_at="2024-01-02T03:04:05Z",
    )  # fmt: skip
    assert (one.place, two.place) == ("row 1", "row 2")
    assert one.columns == {
        "id": "1580000000000000001", "text": "a", "created_at": "2024-01-02T03:04:05+00:00",
        "tags": '["x"]', "more": "",
    }  # fmt: skip
    assert isinstance(two.reading, Post)
    assert two.reading.id.startswith("sha256:")


@pytest.mark.parametrize("cut", [5, 100, -1, -300])
def test_refuses_parquet_that_is_cut_off(tmp_path: Path, cut: int) -> None:
    file = write(tmp_path / "a.parquet", text=["a" * n for n in range(300)])
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(InputError, match="the Parquet is damaged or cut off"):
        read(file)


def test_without_pyarrow_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "a.parquet", text=["a"])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"install newsift with its extra: newsift\[parquet\]"):
        read(file)


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_a_text_that_expands_a_thousandfold_comes_in_small_batches(
    tmp_path: Path, use_dictionary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "MAX_BATCH_BYTES", 100_000)
    table = pa.table({"id": [*range(300)], "text": ["dam " * 2500] * 299 + ["small"]})
    pq.write_table(table, tmp_path / "a", use_dictionary=use_dictionary, compression="zstd")
    assert (tmp_path / "a").stat().st_size < 300 * 10_000 / 100
    batches = read(tmp_path / "a")
    assert max(sum(len(each.value) for each in batch) for batch in batches) < 120_000
    assert [each.place for batch in batches for each in batch] == [
        f"row {number}" for number in range(1, 301)
    ]


def test_a_row_that_is_too_long_is_bad_by_itself(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a dam", "x" * (2**24 + 1), "a dam"]}), tmp_path / "a")
    result = [each.reading for batch in read(tmp_path / "a") for each in batch]
    assert [isinstance(each, Post) for each in result] == [True, False, True]
    assert "is longer than 16 MiB; split it" in str(result[1])
