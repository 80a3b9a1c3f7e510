"""Which files are meant by folders and patterns."""

import glob
from pathlib import Path

import pytest

from encoder.errors import InputError
from worker.files.find import found_files, matching
from worker.files.read import DASH


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.csv", "a.jsonl.gz", "sub/c.PARQUET", "sub/d.txt.zst", ".hidden.csv", "e.md",
                 ".git/f.json", "g"):  # fmt: skip
        file = tmp_path / "data" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    return tmp_path / "data"


def named(folder: Path, *paths: Path) -> list[str]:
    return [str(file.relative_to(folder)) for file in found_files(paths)]


def test_a_folder_stands_for_what_it_holds(folder: Path) -> None:
    (folder / "loop").symlink_to(folder)
    assert named(folder, folder) == ["a.jsonl.gz", "b.csv", "sub/c.PARQUET", "sub/d.txt.zst"]


def test_a_pattern_stands_for_what_fits(folder: Path) -> None:
    assert named(folder, folder / "*.csv") == ["b.csv"]
    assert named(folder, folder / "**" / "*.txt.zst") == ["sub/d.txt.zst"]
    assert named(folder, folder / "s?b") == ["sub/c.PARQUET", "sub/d.txt.zst"]
    (folder / "[1].csv").write_bytes(b"x")
    assert named(folder, folder / "[1].csv") == ["[1].csv"]


@pytest.mark.parametrize(
    "pattern",
    ["**", "**/*.csv", "sub/**", "**/sub/*", "**/d*", "*/**/c*", "s**/*", "**.csv", "**/.git/*"],
)
def test_a_pattern_means_what_python_s_own_does(folder: Path, pattern: str) -> None:
    (folder / "sub" / "deep").mkdir()
    (folder / "sub" / "deep" / "d.csv").write_bytes(b"x")
    whole = str(folder / pattern)
    expected = {Path(path) for path in glob.glob(whole, recursive=True)}  # noqa: PTH207
    files = {Path(path) for path in matching(whole) if Path(path).is_file()}
    assert files == {path for path in expected if path.is_file()}


def test_links_that_lead_round_in_circles_are_not_followed(folder: Path) -> None:
    for name in ("one", "two", "three"):
        (folder / "sub" / name).symlink_to(folder)  # by them there are 3 ** 40 ways
    assert named(folder, folder / "**" / "*.zst") == ["sub/d.txt.zst"]


def test_files_that_are_named_come_in_that_order(folder: Path) -> None:
    assert named(folder, folder / "g", folder / "b.csv", folder / "e.md") == ["g", "b.csv", "e.md"]
    assert found_files([DASH, folder / "none"]) == (DASH, folder / "none")


def test_nothing_found_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="there is no such file; mend the pattern"):
        found_files([folder / "*.xlsx"])
    (folder / "empty").mkdir()
    with pytest.raises(InputError, match="holds no file of posts"):
        found_files([folder / "empty"])
