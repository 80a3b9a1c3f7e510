from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newsift.operations.seed_preview import preview_spans
from worker.kafka.reading import records_between, sample_spans, sample_windows

BOUNDS = st.tuples(st.integers(0, 10**9), st.integers(0, 10**6))


@given(BOUNDS, st.floats(1e-7, 3), st.integers())
def test_windows_are_apart_and_inside(bounds: tuple[int, int], share: float, seed: int) -> None:
    begin, end = bounds[0], bounds[0] + bounds[1]
    result = list(sample_windows(begin, end, share, 64, Random(seed)))
    assert len(result) <= 64 + 1
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
        for low, high in sample_windows(10, 10 + size, share, 64, random):
            for offset in range(low, high):
                hits[offset - 10] += 1
    mean = sum(hits) / size / tries
    assert mean == pytest.approx(share, rel=0.35)
    deviation = (mean * (1 - mean) * tries) ** 0.5
    assert max(abs(count - mean * tries) for count in hits) < 5 * deviation


def test_rounds_read_as_much_of_each_partition_as_it_has() -> None:
    begins, ends = {0: 100, 1: 0, 2: 5}, {0: 64_100, 1: 6_400, 2: 5}
    read = dict.fromkeys(ends, 0)
    for start, end in sample_spans(begins, ends, 7040, 64, Random(1)):
        assert start.keys() == end.keys() == ends.keys()
        for n in ends:
            assert start[n] == end[n] == ends[n] or begins[n] <= start[n] < end[n] <= ends[n]
            read[n] += end[n] - start[n]
    assert read[0] == pytest.approx(6400, rel=0.05)
    assert read[1] == pytest.approx(640, rel=0.05)
    assert read[2] == 0
    begins, ends = {0: 3, 1: 0}, {0: 10, 1: 4}
    assert list(sample_spans(begins, ends, 100, 64, Random(1))) == [(begins, ends)]
    assert list(sample_spans({0: 7}, {0: 7}, 100, 64, Random(1))) == []


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 10**5)), min_size=1, max_size=20))
def test_a_preview_reads_no_more_than_its_limit(bounds: list[tuple[int, int]]) -> None:
    start = {n: begin for n, (begin, _) in enumerate(bounds)}
    end = {n: begin + size for n, (begin, size) in enumerate(bounds)}
    there, most = records_between(start, end), 20_000
    count = sum(records_between(*span) for span in preview_spans(start, end, most))
    assert count == there if there <= most else 0.75 * most < count <= most
