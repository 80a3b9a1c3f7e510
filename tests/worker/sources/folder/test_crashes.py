"""A collector of files that ends at any moment: nothing is missing, and little comes twice."""

import asyncio
import random
from pathlib import Path

import pytest

from tests.worker.sources.folder.files_side import all_of, frames_of, mark_of, posts, put, watched
from worker.sources.frame import Mark


def crash_and_go_on(place: Path, state: Path, dice: random.Random) -> tuple[list[str], int]:
    """All keys that were handed on before each of many crashes, and how many crashes there were."""
    handed: list[str] = []
    mark: Mark | None = None
    crashes = 0

    async def until_it_crashes(after: int) -> bool:
        nonlocal mark
        source, since = watched(place, state), mark
        count = 0
        async for frame in frames_of(source, since):
            if frame.value:
                handed.append((frame.key or b"").decode())
            count += 1
            if dice.random() < 0.7:  # the others are sent and not yet acknowledged
                mark = mark_of(source, frame)
            if count >= after:
                return True
        return False

    while asyncio.run(until_it_crashes(dice.randint(1, 60))):
        crashes += 1
    return handed, crashes


@pytest.mark.parametrize("seed", range(8))
def test_whatever_crashes_nothing_is_missing_and_little_comes_twice(
    place: Path, state: Path, seed: int
) -> None:
    dice = random.Random(seed)
    sizes = [dice.choice([0, 1, 5, 40, 150]) for _ in range(12)]
    for number, size in enumerate(sizes):
        put(place, f"{number}.jsonl", posts(str(number), size), age=100 - number)
    handed, crashes = crash_and_go_on(place, state, dice)
    expected = [f"{name}-{row}" for name, size in enumerate(sizes) for row in range(size)]
    assert crashes > 2
    assert set(handed) == set(expected)
    assert len(handed) - len(expected) < 20 * crashes
    assert list(dict.fromkeys(handed)) == expected


def test_files_that_come_and_go_between_crashes(place: Path, state: Path) -> None:
    put(place, "a.jsonl", posts("a", 10))

    async def three() -> Mark:
        source = watched(place, state)
        async for frame in frames_of(source, None):
            if frame.key == b"a-2":
                return mark_of(source, frame)
        raise AssertionError

    mark = asyncio.run(three())
    put(place, "older.jsonl", posts("older", 1), age=500)
    source = watched(place, state)
    keys, _ = all_of(source, mark)
    assert keys == [f"a-{n}" for n in range(3, 10)] + ["older-0"]  # the one under way first


def test_a_young_file_that_was_under_way_is_gone_on_with(place: Path, state: Path) -> None:
    put(place, "a.jsonl", posts("a", 10))
    _, mark = all_of(watched(place, state))
    assert mark is not None
    again = watched(place, state, settle=1e9)  # nothing is old enough for it
    assert all_of(again, Mark("1:4", mark.place))[0] == [f"a-{n}" for n in range(4, 10)]


@pytest.mark.parametrize("change", ["remove", "rewrite"])
def test_a_file_that_was_under_way_is_not_there_any_more(
    place: Path, state: Path, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = put(place, "a.jsonl", posts("a", 10))
    put(place, "b.jsonl", posts("b", 1), age=1000)
    _, mark = all_of(watched(place, state))
    assert mark is not None
    number = int(str(mark.cursor).partition(":")[0])
    if change == "remove":
        file.unlink()
    else:
        put(place, "a.jsonl", posts("A", 2), age=40)
    keys, _ = all_of(watched(place, state), Mark(f"{number}:4", mark.place))
    assert keys == ([] if change == "remove" else ["A-0", "A-1"])
    assert "a.jsonl: is gone or changed; 4 rows were sent" in caplog.text
