"""Idempotent producers: a retry is stored once, a gap is refused."""

import pytest

from tests.worker.broker.batches import header_of, numbered
from worker.broker.codes import Code, Refused
from worker.broker.sequences import REMEMBERED_PRODUCERS, Sequences


class Partition:
    """A log that keeps only how many records came."""

    def __init__(self) -> None:
        self.sequences = Sequences()
        self.end = 0

    def send(self, sequence: int, count: int = 1, epoch: int = 0, producer: int = 7) -> int:
        header = header_of(numbered(count, producer=(producer, epoch, sequence)))
        stored = self.sequences.duplicate_of(header)
        if stored is not None:
            return stored
        self.sequences.remember(header, self.end)
        self.end += count
        return self.end - count

    def refusal(self, sequence: int, epoch: int = 0) -> Code:
        with pytest.raises(Refused) as caught:
            self.send(sequence, epoch=epoch)
        return caught.value.code


def test_a_retry_of_any_batch_in_flight_is_acknowledged_where_it_stands() -> None:
    partition = Partition()
    first = [partition.send(n * 3, count=3) for n in range(5)]
    assert first == [0, 3, 6, 9, 12]
    assert [partition.send(n * 3, count=3) for n in range(5)] == first
    assert partition.end == 15


def test_gaps_and_what_is_long_past_are_out_of_order() -> None:
    partition = Partition()
    for n in range(7):
        partition.send(n)
    assert partition.refusal(8) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.refusal(0) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_producer_not_known_may_start_anywhere() -> None:
    assert Partition().send(40) == 0


def test_a_new_epoch_starts_at_zero_and_ends_the_old_one() -> None:
    partition = Partition()
    partition.send(0)
    assert partition.refusal(5, epoch=1) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.send(0, epoch=1) == 1
    assert partition.refusal(1, epoch=0) == Code.INVALID_PRODUCER_EPOCH


def test_sequences_go_round() -> None:
    partition = Partition()
    partition.send(2**31 - 2, count=2)
    assert partition.send(0) == 2


def test_the_least_recent_producer_is_forgotten() -> None:
    partition = Partition()
    for producer in range(REMEMBERED_PRODUCERS + 1):
        partition.send(0, producer=producer)
    partition.send(9, producer=0)
    with pytest.raises(Refused):
        partition.send(9, producer=REMEMBERED_PRODUCERS)
