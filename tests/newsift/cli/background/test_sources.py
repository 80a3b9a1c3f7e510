"""Which offsets are read of a topic: so many, each as likely as another; and what files hold."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newsift.cli.background import WINDOWS, file_posts, rounds, windows
from worker.config import Config
from worker.posts.read import Post

BOUNDS = st.tuples(st.integers(0, 10**9), st.integers(0, 10**6))


@given(BOUNDS, st.floats(1e-7, 3), st.integers())
def test_windows_lie_apart_within_the_partition(
    bounds: tuple[int, int], share: float, seed: int
) -> None:
    begin, end = bounds[0], bounds[0] + bounds[1]
    result = list(windows(begin, end, share, Random(seed)))
    assert len(result) <= WINDOWS + 1
    flat = [begin, *(offset for window in result for offset in window), end]
    assert flat == sorted(flat)
    assert all(low < high for low, high in result)
    if share >= 1:
        assert result == ([(begin, end)] if begin < end else [])


@pytest.mark.parametrize(("size", "share"), [(100, 0.5), (1000, 0.05), (700, 0.3), (50, 0.01)])
def test_each_offset_is_as_likely_as_another(size: int, share: float) -> None:
    tries = 4000
    hits, random = [0] * size, Random(7)
    for _ in range(tries):
        for low, high in windows(10, 10 + size, share, random):
            for offset in range(low, high):
                hits[offset - 10] += 1
    mean = sum(hits) / size / tries
    assert mean == pytest.approx(share, rel=0.35)
    deviation = (mean * (1 - mean) * tries) ** 0.5
    assert max(abs(count - mean * tries) for count in hits) < 5 * deviation


def test_rounds_read_as_much_of_each_partition_as_it_has() -> None:
    begins, ends = {0: 100, 1: 0, 2: 5}, {0: 64_100, 1: 6_400, 2: 5}
    read = dict.fromkeys(ends, 0)
    for start, end in rounds(begins, ends, 7040, Random(1)):
        assert start.keys() == end.keys() == ends.keys()
        for n in ends:
            assert start[n] == end[n] == ends[n] or begins[n] <= start[n] < end[n] <= ends[n]
            read[n] += end[n] - start[n]
    assert read[0] == pytest.approx(6400, rel=0.05)
    assert read[1] == pytest.approx(640, rel=0.05)
    assert read[2] == 0


def test_all_is_read_where_there_is_no_more() -> None:
    begins, ends = {0: 3, 1: 0}, {0: 10, 1: 4}
    assert list(rounds(begins, ends, 100, Random(1))) == [(begins, ends)]
    assert list(rounds({0: 7}, {0: 7}, 100, Random(1))) == []


def test_files_are_read_as_filter_reads_them(tmp_path: Path) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.txt"
    one.write_text('{"id": "1", "text": "flood", "created_at": "2026-01-01T00:00:01Z"}\n{"id": 1')
    other.write_text("a post\n\nanother post\n")
    source = file_posts([one, other], Config())
    assert source.share(0) == 0
    result = list(source.readings)
    assert source.share(len(result)) == 1
    texts = [each.text if isinstance(each, Post) else None for _, each in result]
    assert texts == ["flood", None, "a post", "another post"]
    assert [at for at, _ in result] == [1_767_225_601_000, 0, 0, 0]
