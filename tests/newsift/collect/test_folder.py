import asyncio
import gzip
import os
import random
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from threading import Timer

import pytest

import newsift.collect.file_ledger
from encoder.errors import InputError
from newsift.collect.file_ledger import ALL_ROWS, FileLedger, FilePosition, FileVersion
from newsift.collect.folder import SettleTimer, scan_folder
from newsift.collect.source import SourcePosition
from newsift.files.messages import FileMessage
from tests.newsift.collect.watched_folder import all_of, frames_of, position_of, posts, put, watched
from worker.errors import RunError


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "posts"
    folder.mkdir()
    return folder


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


async def test_leaving_ends_the_thread_that_reads(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl", posts("a", 1))
    reading = asyncio.Event()
    loop = asyncio.get_running_loop()

    def read(_path: Path) -> Iterator[Sequence[FileMessage]]:
        loop.call_soon_threadsafe(reading.set)
        yield from repeat(())

    source = watched(tmp_path, tmp_path / "state")
    source.read = read
    task = asyncio.ensure_future(anext(frames_of(source, None)))
    async with asyncio.timeout(60):
        await reading.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await loop.shutdown_default_executor()  # it waits for the thread


@pytest.mark.parametrize("seed", range(8))
async def test_crashes_lose_nothing_and_repeat_little(place: Path, state: Path, seed: int) -> None:
    dice = random.Random(seed)
    sizes = [dice.choice([0, 1, 5, 40, 150]) for _ in range(12)]
    for number, size in enumerate(sizes):
        put(place, f"{number}.jsonl", posts(str(number), size), age=100 - number)
    expected = [f"{name}-{row}" for name, size in enumerate(sizes) for row in range(size)]
    sent, position, crashes, over = list[str](), None, -1, False
    while not over:
        source, left, over = watched(place, state), dice.randint(1, 60), True
        crashes += 1
        async for frame in frames_of(source, position):
            if frame.value:
                sent.append((frame.key or b"").decode())
            left -= 1
            if dice.random() < 0.7:  # the others are sent and not yet acknowledged
                position = position_of(source, frame)
            if left <= 0:
                over = False
                break
    assert crashes > 2
    assert len(sent) - len(expected) < 20 * crashes
    assert list(dict.fromkeys(sent)) == expected


@pytest.mark.parametrize("change", ["remove", "rewrite"])
def test_reports_a_file_in_progress_that_has_gone(
    place: Path, state: Path, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = put(place, "a.jsonl", posts("a", 10))
    put(place, "b.jsonl", posts("b", 1), age=1000)
    _, position = all_of(watched(place, state))
    assert position is not None
    number = int(str(position.cursor).partition(":")[0])
    if change == "remove":
        file.unlink()
    else:
        put(place, "a.jsonl", posts("A", 2), age=40)
    keys, _ = all_of(watched(place, state), SourcePosition(f"{number}:4", position.place))
    assert keys == ([] if change == "remove" else ["A-0", "A-1"])
    assert "a.jsonl: is gone or changed; 4 rows were sent" in caplog.text


def test_every_file_once_the_oldest_first(place: Path, state: Path) -> None:
    put(place, "b.jsonl", posts("b", 3), age=90)
    put(place, "deep/er/a.jsonl.gz", gzip.compress(posts("a", 2)), age=30)
    put(place, "c.csv", b"id,text\nc-0,one\nc-1,two\n", age=60)
    put(place, "d.json", b"[" + b",".join(posts("d", 2).splitlines()) + b"]", age=10)
    source = watched(place, state)
    keys, position = all_of(source)
    assert keys == ["b-0", "b-1", "b-2", "c-0", "c-1", "a-0", "a-1", "d-0", "d-1"]
    assert source.counts["files"] == 4
    assert all_of(watched(place, state), position) == ([], position)
    put(place, "e.jsonl", posts("e", 1))
    assert all_of(watched(place, state), position)[0] == ["e-0"]


def test_reads_each_file_once_and_ignores_hidden_and_others(place: Path, state: Path) -> None:
    for name in (".a.jsonl", ".hidden/a.jsonl", "a.jsonl.part", "notes.md"):
        put(place, name, posts("x", 1))
    (place / "folder.csv").mkdir()
    os.mkfifo(place / "pipe.jsonl")
    (place / "loop").symlink_to(place)
    (place / "itself.jsonl").symlink_to(place / "itself.jsonl")
    odd = put(place, "new\nline \udcff.jsonl", posts("a", 2))
    (place / "again.jsonl").symlink_to(odd)
    (place / "linked.jsonl").hardlink_to(odd)
    keys, position = all_of(watched(place, state))
    assert keys == ["a-0", "a-1"]
    assert all_of(watched(place, state), position) == ([], position)


def test_reports_bad_file_once(place: Path, state: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(place, "a.csv", b"x,y\n1,2\n", age=90)
    put(place, "b.jsonl.gz", gzip.compress(posts("b", 3000))[:-200], age=80)
    unread = put(place, "c.jsonl", b"\x00\x01\x02", age=70)
    put(place, "d.jsonl", posts("d", 2), age=60)
    source = watched(place, state)
    keys, position = all_of(source)
    assert keys[-2:] == ["d-0", "d-1"]
    assert source.counts["not understood"] == 3
    for name in ("a.csv", "b.jsonl.gz", "c.jsonl"):
        assert caplog.text.count(f"{name}") == 1
    assert sorted(file.name for file in place.iterdir()) == [
        "a.csv", "b.jsonl.gz", "c.jsonl", "d.jsonl",
    ]  # fmt: skip
    assert all_of(watched(place, state), position) == ([], position)
    put(place, "c.jsonl", posts("c", 1), age=30)
    assert unread.exists()
    assert all_of(watched(place, state), position)[0] == ["c-0"]  # it was mended


def test_reads_a_file_once_it_can_be_opened(
    place: Path, state: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A change of its permissions changes neither its size nor its time."""
    put(place, "a.jsonl", posts("a", 2), age=90)
    put(place, "b.jsonl", posts("b", 1))
    opened = Path.open

    def refuse(file: Path, mode: str = "r") -> object:
        if file.name == "a.jsonl":
            raise PermissionError(13, "Permission denied")
        return opened(file, mode)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refuse)
        keys, position = all_of(watched(place, state))
        assert keys == ["b-0"]
        assert all_of(watched(place, state), position) == ([], position)
        assert caplog.text.count("Permission denied") == 1
    keys, position = all_of(watched(place, state), position)
    assert keys == ["a-0", "a-1"]
    assert all_of(watched(place, state), position) == ([], position)


def test_a_file_that_is_written_to_while_others_are_read_is_read_when_it_is_complete(
    place: Path, state: Path
) -> None:
    put(place, "a.jsonl", posts("a", 1), age=90)
    put(place, "b.jsonl", posts("b", 1))
    source = watched(place, state)
    source.settle_timer = SettleTimer(0.5)
    read = source.read
    rest = Timer(0.1, put, (place, "b.jsonl", posts("b", 3), 0))

    def append(path: Path) -> Iterable[Sequence[FileMessage]]:
        if path.name == "a.jsonl":
            put(place, "b.jsonl", posts("b", 2), age=0)
            rest.start()
        return read(path)

    source.read = append
    keys, position = all_of(source)
    rest.join()
    assert keys == ["a-0", "b-0", "b-1", "b-2"]
    assert all_of(watched(place, state), position) == ([], position)


def test_a_file_that_is_moved_before_its_turn_is_read_where_it_is(place: Path, state: Path) -> None:
    put(place, "a.jsonl", posts("a", 1), age=90)
    put(place, "b.jsonl", posts("b", 2))
    source = watched(place, state)
    read = source.read

    def move(path: Path) -> Iterable[Sequence[FileMessage]]:
        if path.name == "a.jsonl":
            (place / "b.jsonl").rename(place / "c.jsonl")
        return read(path)

    source.read = move
    keys, position = all_of(source)
    assert keys == ["a-0", "b-0", "b-1"]
    assert source.counts["not understood"] == 0
    assert all_of(watched(place, state), position) == ([], position)


def test_a_file_with_a_place_that_cannot_be_read_is_tried_once(place: Path, state: Path) -> None:
    put(place, "a.jsonl", posts("a", 1))
    source = watched(place, state)

    def fail(_path: Path) -> Iterator[Sequence[FileMessage]]:
        raise InputError("bad block") from OSError(5, "Input/output error")

    source.read = fail
    keys, position = all_of(source)
    assert (keys, source.counts["not understood"]) == ([], 1)
    assert all_of(watched(place, state), position) == ([], position)


def test_once_fails_for_a_file_that_went_before_its_turn(place: Path, state: Path) -> None:
    put(place, "a.jsonl", posts("a", 1), age=90)
    put(place, "b.jsonl", posts("b", 1))
    source = watched(place, state)
    read = source.read

    def take_away(path: Path) -> Iterable[Sequence[FileMessage]]:
        (place / "b.jsonl").unlink(missing_ok=True)
        return read(path)

    source.read = take_away
    with pytest.raises(RunError, match=r"b\.jsonl"):
        all_of(source)


@pytest.mark.parametrize("rows", [0, 1])
def test_a_disk_that_goes_and_comes_back_loses_no_file(place: Path, state: Path, rows: int) -> None:
    """It goes as the first file is opened, or after its first row."""
    put(place, "a.jsonl", posts("a", 2), age=90)
    put(place, "b.jsonl", posts("b", 2))
    away = place.with_name("away")
    source = watched(place, state)
    read = source.read

    def unplug(path: Path) -> Iterator[Sequence[FileMessage]]:
        messages = [message for part in read(path) for message in part]
        yield from ([message] for message in messages[:rows])
        place.rename(away)
        raise InputError("no disk") from OSError(5, "Input/output error")

    source.read = unplug
    stored = list[SourcePosition]()

    async def run() -> None:
        async for frame in frames_of(source, None):
            stored.append(position_of(source, frame))

    with pytest.raises(RunError):
        asyncio.run(run())
    away.rename(place)
    keys, position = all_of(watched(place, state), stored[-1])
    assert keys == ["a-0", "a-1", "b-0", "b-1"]
    assert all_of(watched(place, state), position) == ([], position)


def test_recognises_a_folder_that_was_copied_back(place: Path, state: Path, tmp_path: Path) -> None:
    """As one that is mounted anew: other inodes, the same names, sizes, times and contents."""
    put(place, "a.jsonl", posts("a", 2))
    put(place, "b.jsonl", posts("b", 2))
    _, position = all_of(watched(place, state))
    shutil.copytree(place, tmp_path / "copy")
    shutil.rmtree(place)
    shutil.copytree(tmp_path / "copy", place)
    assert all_of(watched(place, state), position) == ([], position)


@pytest.mark.parametrize(
    ("cursor", "of", "message"),
    [
        ("x", "", "belongs to no folder"),
        (7, "", "belongs to no folder"),
        ("1:2", "/a", "to the folder '/a'"),
    ],
)
def test_refuses_another_state(
    place: Path, state: Path, cursor: str | int, of: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        all_of(watched(place, state), SourcePosition(cursor, of or str(place)))


def scan(folder: Path) -> list[FileVersion]:
    return scan_folder(str(folder)) or []


def start_files(folder: Path, file: Path, count: int = 3) -> FileLedger:
    for number in range(count):
        put(folder, f"{number}.jsonl", posts(str(number), 1), age=100 - number)
    ledger = FileLedger(file)
    ledger.load(None)
    ledger.add(scan(folder))
    return ledger


def again(file: Path, place: FilePosition | None) -> FileLedger:
    ledger = FileLedger(file)
    ledger.load(place)
    return ledger


def test_another_file_of_a_sent_one_s_name_is_new_even_with_its_inode(
    place: Path, state: Path
) -> None:
    ledger = start_files(place, state, 2)
    taken, grown = place / "0.jsonl", place / "1.jsonl"
    with grown.open("ab") as late:
        late.write(posts("late", 1))
    for content in (posts("another", 5), posts("0", 1)[:-9]):  # another, and a shorter one
        taken.write_bytes(content)  # the inode stays
        changed = [each for each in scan(place) if ledger.find(each) is None]
        named = {Path(each.path): ledger.was_changed(each) for each in changed}
        assert named == {taken: False, grown: True}


def test_resumes_the_file_in_progress(place: Path, state: Path) -> None:
    start_files(place, state)
    again(state, FilePosition(2, 5))
    ledger = again(state, FilePosition(2, 5))  # as it was, had it crashed at once
    files = scan(place)
    assert ledger.find(files[1]) is None
    line, there, rows = ledger.resume(files) or pytest.fail("nothing is under way")
    assert (line.number, there, rows) == (2, files[1], 5)
    assert ledger.find(files[1]) is line
    assert ledger.find(files[2]) is None


def test_a_line_that_a_crash_cut_off_was_not_begun(place: Path, state: Path) -> None:
    start_files(place, state)
    state.write_bytes(state.read_bytes() + b'[4,"/x/y.jsonl",1,')
    assert again(state, FilePosition(3, ALL_ROWS)).find(scan(place)[2]) is not None


def test_a_ledger_that_was_lost_is_not_taken_for_an_empty_one(place: Path, state: Path) -> None:
    start_files(place, state)
    lines = state.read_bytes()
    first = lines.splitlines(keepends=True)[0]
    for damaged in (None, b"", b"garbage\n", b"garbage\n" + lines, first):
        state.unlink() if damaged is None else state.write_bytes(damaged)
        with pytest.raises(InputError, match="says which files were sent; delete the state too"):
            again(state, FilePosition(3, ALL_ROWS))
        assert damaged is None or state.read_bytes() == damaged


def test_forgets_the_oldest_gone(place: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newsift.collect.file_ledger, "MAX_LEDGER_ENTRIES", 10)
    ledger = start_files(place, state, 14)
    before = scan(place)
    for number in range(12):
        (place / f"{number}.jsonl").unlink()
    ledger.prune(scan(place))
    for each in (ledger, again(state, FilePosition(14, ALL_ROWS))):
        assert [each.find(old) is not None for old in before] == [False] * 9 + [True] * 5


def test_the_newest_is_not_forgotten(
    place: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state names it, so a ledger without it would be refused."""
    monkeypatch.setattr(newsift.collect.file_ledger, "MAX_LEDGER_ENTRIES", 10)
    ledger = start_files(place, state, 12)
    for number in (0, 11):
        (place / f"{number}.jsonl").unlink()
    ledger.prune(scan(place))
    assert again(state, FilePosition(12, ALL_ROWS)).find(scan(place)[0]) is not None


def test_recognises_rotated_logs_after_restarts(place: Path, state: Path) -> None:
    ledger, log = FileLedger(state), place / "log.jsonl"
    ledger.load(None)
    for number in range(4):
        for old in sorted(place.glob("log.*.jsonl"), reverse=True):
            old.rename(place / f"log.{int(old.name.split('.')[1]) + 1}.jsonl")
        if log.exists():
            log.rename(place / "log.1.jsonl")
        put(place, "log.jsonl", posts(str(number), 1), age=100 - number)
        new = [each for each in scan(place) if ledger.find(each) is None]
        assert [each.path for each in new] == [str(log)]
        ledger.add(new)
        for _ in range(2):
            ledger = again(state, FilePosition(number + 1, ALL_ROWS))
    assert all(ledger.find(each) for each in scan(place))
    with (place / "log.2.jsonl").open("ab") as late:
        late.write(posts("late", 1))
    (changed,) = (each for each in scan(place) if ledger.find(each) is None)
    assert ledger.was_changed(changed)


def a_file(size: int, changed: float) -> FileVersion:
    return FileVersion("/a", 1, 2, size, round(changed * 1e9))


def test_a_file_is_whole_once_it_is_old_or_has_not_changed_for_long() -> None:
    timer = SettleTimer(5.0)
    assert timer.complete_files([a_file(1, 94.9)], 100.0, 0.0) == ([a_file(1, 94.9)], False)
    young = a_file(1, 99.0)
    assert timer.complete_files([young], 100.0, 0.0) == ([], True)
    assert timer.complete_files([young], 102.0, 2.0) == ([], True)
    grown = a_file(2, 102.5)
    assert timer.complete_files([grown], 103.0, 3.0) == ([], True)
    assert timer.complete_files([grown], 107.0, 7.0) == ([], True)
    assert timer.complete_files([grown], 108.0, 8.0) == ([grown], False)


def test_a_time_in_the_future_keeps_no_file_for_ever() -> None:
    timer, ahead = SettleTimer(5.0), a_file(1, 10_000.0)
    assert timer.complete_files([ahead], 100.0, 0.0)[1]
    assert timer.complete_files([ahead], 105.0, 5.0) == ([ahead], False)


def test_counts_unreadable_rows(place: Path, state: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = posts("a", 2) + b'{"id": "x"}\n' * 5 + b"{\n" + posts("a", 4, 2)
    put(place, "a.jsonl", rows)
    source = watched(place, state)
    assert all_of(source)[0] == [f"a-{n}" for n in range(4)]
    assert (source.counts["rows"], source.counts["bad rows"]) == (10, 6)
    assert caplog.text.count("not sent") == 2  # one for each reason
