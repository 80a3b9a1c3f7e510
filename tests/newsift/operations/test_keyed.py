"""The order in which the records of a keyed topic take effect."""

from dataclasses import dataclass

import pytest

from newsift.operations.keyed_topic import in_order
from worker.kafka.reading import StoredMessage
from worker.kafka.sending import Headers
from worker.seeds.state import ControlReducer


@dataclass
class Message(StoredMessage):
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None = b'{"text": "A ferry burns."}'
    topic: str = "seed-articles"
    headers: Headers = ()


def test_several_partitions_are_merged_by_time() -> None:
    first: list[StoredMessage] = [Message(0, 0, 10, b"a"), Message(0, 1, 30, b"c")]
    second: list[StoredMessage] = [Message(1, 0, 20, b"b")]
    (merged,) = in_order([first, second], 2)
    assert [record.key for record in merged] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("late", [5, -1])
def test_a_partition_whose_timestamps_go_back_loses_no_record(late: int) -> None:
    first: list[StoredMessage] = [
        Message(0, 0, 50, b"a"),
        Message(0, 1, late, b"b"),
        Message(0, 2, late, b"a", None),
    ]
    second: list[StoredMessage] = [Message(1, 0, 20, b"c"), Message(1, 1, 60, b"b", None)]
    (merged,) = in_order([first, second], 2)
    for partition in (0, 1):
        offsets = [record.offset for record in merged if record.partition == partition]
        assert offsets == sorted(offsets)
    reducer = ControlReducer()
    reducer.apply(merged)
    assert list(reducer.snapshot().seeds) == ["c"]  # a and b are deleted last
