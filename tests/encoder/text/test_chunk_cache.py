"""The memory of chunks: against a dictionary, within its bound, and under threads."""

import threading
from zlib import crc32

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from encoder.text.chunk_cache import ABSENT, PROBES, Chunks, Snapshot, body, look_up, record

Held = tuple[list[int], list[int]]
batches = st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=20), min_size=1, max_size=30)


def chunk_of(number: int) -> bytes:
    return f"é{number}".encode()


def content(number: int) -> Held:
    """What the chunk of this number holds: more the higher it is."""
    return [number] * (number % 5), [number + 1] * (number % 3)


def keep(memory: Chunks, numbers: list[int]) -> None:
    records = [record(chunk_of(i), *content(i)) for i in numbers]
    places = np.cumsum([0, *map(len, records)], dtype=np.int64)[:-1] // 4
    memory.keep(np.frombuffer(b"".join(records), np.int32), places)


def found(snapshot: Snapshot, chunk: bytes) -> Held | None:
    """The ids and slots that a snapshot has of a chunk."""
    data = np.frombuffer(chunk, np.uint8)
    for half in snapshot:
        place = look_up(half, crc32(chunk), data, 0, len(chunk))
        if place != ABSENT:
            at = body(half.arena, place)
            ids, slots = half.arena[at : at + 2]
            both = half.arena[at + 2 : at + 2 + ids + slots].tolist()
            return both[:ids], both[ids:]
    return None


@settings(deadline=None)
@given(batches, st.integers(1, 64))
def test_whatever_is_found_is_what_was_kept_and_the_bound_holds(
    numbers: list[list[int]], capacity: int
) -> None:
    memory = Chunks(capacity)
    met: set[int] = set()
    for batch in numbers:
        keep(memory, batch)
        met |= set(batch)
        assert len(memory) <= max(2, capacity)
        snapshot = memory.snapshot()
        for i in range(61):
            assert found(snapshot, chunk_of(i)) in ((content(i), None) if i in met else (None,))
        assert found(snapshot, chunk_of(batch[-1])) == content(batch[-1])


def test_a_snapshot_does_not_see_what_came_later() -> None:
    memory = Chunks(100)
    keep(memory, [1])
    before = memory.snapshot()
    keep(memory, [2])
    assert found(before, chunk_of(1)) == content(1)
    assert found(before, chunk_of(2)) is None
    assert found(memory.snapshot(), chunk_of(2)) == content(2)


def test_a_snapshot_stays_whole_when_both_halves_have_gone() -> None:
    memory = Chunks(10)
    keep(memory, [1, 2, 3])
    before = memory.snapshot()
    keep(memory, list(range(100, 200)))
    assert found(memory.snapshot(), chunk_of(1)) is None
    assert [found(before, chunk_of(i)) for i in (1, 2, 3)] == [content(i) for i in (1, 2, 3)]


def test_a_record_larger_than_the_memory_is_passed_over() -> None:
    memory = Chunks(1)
    huge = record(b"huge", [1] * 10_000, [])
    memory.keep(np.frombuffer(huge, np.int32), np.array([0], np.int64))
    assert len(memory) == 0
    keep(memory, [7])
    assert found(memory.snapshot(), chunk_of(7)) == content(7)


def test_chunks_made_to_collide_are_told_apart_and_take_no_long_search() -> None:
    memory = Chunks(10_000)
    size, wanted = memory.snapshot().newer.size, None
    numbers: list[int] = []
    for i in range(800_000):
        home = ((crc32(chunk_of(i)) * 0x9E3779B1 & 0xFFFFFFFF) * size) >> 32
        wanted = home if wanted is None else wanted
        numbers += [i] if home == wanted else []
    assert len(numbers) > 2 * PROBES
    keep(memory, numbers)
    results = [found(memory.snapshot(), chunk_of(i)) for i in numbers]
    assert results == [content(i) for i in numbers[:PROBES]] + [None] * (len(numbers) - PROBES)


def test_no_reader_sees_half_a_record_while_others_write_and_evict() -> None:
    memory = Chunks(64)
    wrong: list[object] = []
    seen: list[int] = []
    over = threading.Event()

    def write(first: int) -> None:
        for turn in range(150):
            keep(memory, [(first + 7 * turn + k) % 500 for k in range(5)])

    def look() -> None:
        while not over.is_set():
            snapshot = memory.snapshot()
            for i in range(0, 500, 9):
                held = found(snapshot, chunk_of(i))
                wrong.extend([held] if held not in (None, content(i)) else [])
                seen.extend([i] if held is not None else [])

    writers = [threading.Thread(target=write, args=(i,)) for i in (0, 100, 250)]
    readers = [threading.Thread(target=look) for _ in range(2)]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    over.set()
    for thread in readers:
        thread.join()
    assert wrong == []
    assert seen
