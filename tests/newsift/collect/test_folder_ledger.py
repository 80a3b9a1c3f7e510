"""Which files were begun: what of it survives, and what is known again."""

from pathlib import Path

import pytest

import newsift.collect.folder as folder_module
from encoder.errors import InputError
from newsift.collect.folder import ENTIRE, FileLedger, FileVersion, Place, Settling, scan_folder
from tests.newsift.collect.folder_side import posts, put


def result(folder: Path) -> list[FileVersion]:
    return scan_folder(str(folder)) or []


def start_files(folder: Path, file: Path, count: int = 3) -> FileLedger:
    for number in range(count):
        put(folder, f"{number}.jsonl", posts(str(number), 1), age=100 - number)
    ledger = FileLedger(file)
    ledger.open(None)
    ledger.begin(result(folder))
    return ledger


def again(file: Path, place: Place | None) -> FileLedger:
    ledger = FileLedger(file)
    ledger.open(place)
    return ledger


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "posts"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.mark.parametrize("number", [1, 2, 3])
def test_what_is_done_is_what_comes_before_the_cursor(
    folder: Path, file: Path, number: int
) -> None:
    start_files(folder, file)
    ledger = again(file, Place(number, ENTIRE))
    assert [ledger.entry_of(each) is not None for each in result(folder)] == [
        n <= number for n in (1, 2, 3)
    ]
    assert ledger.resume(result(folder)) is None
    assert [line.number for line, _ in ledger.begin(result(folder)[number:])] == [
        *range(number + 1, 4)
    ]


def test_the_file_under_way_is_resumed_and_then_known(folder: Path, file: Path) -> None:
    start_files(folder, file)
    again(file, Place(2, 5))
    ledger = again(file, Place(2, 5))  # as it was, had it crashed at once
    files = result(folder)
    assert ledger.entry_of(files[1]) is None
    line, there, rows = ledger.resume(files) or pytest.fail("nothing is under way")
    assert (line.number, there, rows) == (2, files[1], 5)
    assert ledger.entry_of(files[1]) is line
    assert ledger.entry_of(files[2]) is None


def test_a_line_that_a_crash_cut_off_was_not_begun(folder: Path, file: Path) -> None:
    start_files(folder, file)
    file.write_bytes(file.read_bytes() + b'[4,"/x/y.jsonl",1,')
    assert again(file, Place(3, ENTIRE)).entry_of(result(folder)[2]) is not None


def test_a_ledger_that_was_lost_is_not_taken_for_an_empty_one(folder: Path, file: Path) -> None:
    start_files(folder, file)
    file.unlink()
    with pytest.raises(InputError, match="says which files were sent; delete the state too"):
        again(file, Place(3, ENTIRE))


def test_of_far_too_many_the_oldest_that_are_gone_are_forgotten(
    folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "MOST", 10)
    ledger = start_files(folder, file, 14)
    before = result(folder)
    for number in range(12):
        (folder / f"{number}.jsonl").unlink()
    ledger.prune(result(folder))
    for each in (ledger, again(file, Place(14, ENTIRE))):
        assert [each.entry_of(old) is not None for old in before] == [False] * 9 + [True] * 5


def test_logs_that_are_turned_are_known_however_often_it_starts_again(
    folder: Path, file: Path
) -> None:
    ledger, log = FileLedger(file), folder / "log.jsonl"
    ledger.open(None)
    for number in range(4):
        for old in sorted(folder.glob("log.*.jsonl"), reverse=True):
            old.rename(folder / f"log.{int(old.name.split('.')[1]) + 1}.jsonl")
        if log.exists():
            log.rename(folder / "log.1.jsonl")
        put(folder, "log.jsonl", posts(str(number), 1), age=100 - number)
        new = [each for each in result(folder) if ledger.entry_of(each) is None]
        assert [each.path for each in new] == [str(log)]
        ledger.begin(new)
        for _ in range(2):
            ledger = again(file, Place(number + 1, ENTIRE))
    assert all(ledger.entry_of(each) for each in result(folder))
    with (folder / "log.2.jsonl").open("ab") as late:
        late.write(posts("late", 1))
    (changed,) = (each for each in result(folder) if ledger.entry_of(each) is None)
    assert ledger.changed(changed) is not None


def a_file(size: int, changed: float) -> FileVersion:
    return FileVersion("/a", 1, 2, size, round(changed * 1e9))


def test_a_file_is_whole_once_it_is_old_or_has_not_changed_for_long() -> None:
    settling = Settling(5.0)
    assert settling.whole([a_file(1, 94.9)], 100.0, 0.0) == ([a_file(1, 94.9)], False)
    young = a_file(1, 99.0)
    assert settling.whole([young], 100.0, 0.0) == ([], True)
    assert settling.whole([young], 102.0, 2.0) == ([], True)
    grown = a_file(2, 102.5)
    assert settling.whole([grown], 103.0, 3.0) == ([], True)
    assert settling.whole([grown], 107.0, 7.0) == ([], True)
    assert settling.whole([grown], 108.0, 8.0) == ([grown], False)


def test_a_time_in_the_future_keeps_no_file_for_ever() -> None:
    settling, ahead = Settling(5.0), a_file(1, 10_000.0)
    assert settling.whole([ahead], 100.0, 0.0)[1]
    assert settling.whole([ahead], 105.0, 5.0) == ([ahead], False)
