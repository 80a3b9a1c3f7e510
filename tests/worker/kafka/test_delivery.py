import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from aiokafka.errors import (
    KafkaError,
    MessageSizeTooLargeError,
    NotLeaderForPartitionError,
    OutOfOrderSequenceNumber,
    TopicAuthorizationFailedError,
)
from aiokafka.partitioner import DefaultPartitioner
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import worker.kafka.delivery
from tests.worker.stream.fake_clients import FakeCluster
from worker.errors import BrokerError
from worker.kafka.delivery import MAX_MISSED_DEADLINES, Delivery
from worker.kafka.producer import ProducerRecord, choose_partition

TOPICS = ("matched-tweets", "rejected-tweets")


@pytest.fixture(autouse=True, scope="module")
def short_waits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RETRY_S", "MAX_REFUSED_S", "MAX_RETRY_S"):
            patch.setattr(worker.kafka.delivery, name, getattr(worker.kafka.delivery, name) / 1000)
        yield


def records(count: int, topic: str = TOPICS[0]) -> list[ProducerRecord]:
    return [ProducerRecord(topic, b"%d" % n, b"value %d" % n, (), n) for n in range(count)]


def unshrinkable(_: ProducerRecord) -> ProducerRecord | None:
    return None


@asynccontextmanager
async def started(
    deadline_s: float = 5.0, parcel: int = 1000, stuck: int = 0
) -> AsyncIterator[tuple[FakeCluster, Delivery, list[bool]]]:
    """A started delivery; the list notes each time that the output stalls or goes on."""
    cluster, stalls = FakeCluster(), list[bool]()
    cluster.parcel, cluster.stuck = parcel, stuck
    delivery = Delivery(cluster.producer, TOPICS, deadline_s, stalls.append)
    await delivery.start()
    yield cluster, delivery, stalls
    await delivery.stop()
    assert all(producer.stopped for producer in cluster.made)


@given(
    st.lists(st.tuples(st.sampled_from(TOPICS), st.none() | st.binary(max_size=4)), max_size=30),
    st.integers(1, 60),
    st.lists(st.sampled_from([None, NotLeaderForPartitionError(), OutOfOrderSequenceNumber()]),
             max_size=8),
)  # fmt: skip
async def test_every_letter_arrives_after_temporary_errors(
    addressed: list[tuple[str, bytes | None]], parcel: int, errors: list[KafkaError | None]
) -> None:
    sent = [
        ProducerRecord(topic, key, b"value %d" % n, (), n)
        for n, (topic, key) in enumerate(addressed)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker.kafka.delivery, "MAX_REFUSED_S", 60.0)  # however busy the machine is
        async with started(parcel=parcel) as (cluster, delivery, _):
            cluster.errors.extend(errors)
            await delivery.deliver(sent, unshrinkable)
    assert Counter((topic, key, value) for topic, _, key, value in cluster.written) == Counter(
        (record.topic, record.key, record.value) for record in sent
    )


async def test_records_of_one_key_share_a_partition_and_keep_their_order() -> None:
    sent = [ProducerRecord(TOPICS[0], b"key %d" % (n % 5), b"%d" % n, (), n) for n in range(50)]
    async with started() as (cluster, delivery, _):
        await delivery.deliver(sent, unshrinkable)
    for number in range(5):
        key = b"key %d" % number
        own = [(partition, value) for _, partition, k, value in cluster.written if k == key]
        assert [value for _, value in own] == [x.value for x in sent if x.key == key]
        assert len({partition for partition, _ in own}) == 1


@given(st.binary(max_size=80), st.integers(1, 40))
def test_a_key_goes_where_other_clients_send_it(key: bytes, count: int) -> None:
    partitions = list(range(count))
    assert choose_partition(key, partitions) == DefaultPartitioner()(key, partitions, [])


async def test_delivery_waits_for_the_acknowledgement_and_sends_nothing_twice() -> None:
    """aiokafka retries by itself: a second attempt of ours would only make duplicates."""
    async with started(deadline_s=0.01) as (cluster, delivery, stalls):
        cluster.away, cluster.answering = True, False
        delivering = asyncio.ensure_future(delivery.deliver(records(3), unshrinkable))
        while stalls.count(True) < 4 * MAX_MISSED_DEADLINES:
            await asyncio.sleep(0)
        assert not delivering.done()
        assert cluster.written == []
        attempts = cluster.attempts
        cluster.away = False
        cluster.back.set()
        await delivering
        assert cluster.attempts == attempts
        assert stalls[-1] is False
    assert (len(cluster.written), len(cluster.made)) == (3, 1)


async def test_a_stuck_producer_is_replaced() -> None:
    async with started(deadline_s=0.01, stuck=1) as (cluster, delivery, _):
        await delivery.deliver(records(3), unshrinkable)
    assert (len(cluster.written), len(cluster.made)) == (3, 2)


async def test_a_broker_that_answers_and_never_acknowledges_is_an_error() -> None:
    async with started(deadline_s=0.01, stuck=100) as (cluster, delivery, _):
        with pytest.raises(BrokerError, match="no acknowledgement"):
            await delivery.deliver(records(3), unshrinkable)
    assert len(cluster.made) == 2


async def test_a_lasting_error_is_raised_and_not_retried() -> None:
    async with started() as (cluster, delivery, _):
        cluster.errors.append(TopicAuthorizationFailedError(TOPICS[0]))
        with pytest.raises(TopicAuthorizationFailedError):
            await delivery.deliver(records(1), unshrinkable)
    assert cluster.attempts == 1


async def test_an_invalid_record_costs_few_producers_and_its_neighbours_arrive() -> None:
    """Such as a dead letter without a key on a compacted topic."""
    async with started() as (cluster, delivery, _):
        cluster.unfit = b"no key"
        bad = ProducerRecord(TOPICS[1], None, b"no key", (), 0)
        with pytest.raises(BrokerError, match=r"topic rejected-tweets: .*InvalidRecordError"):
            await delivery.deliver([*records(3), bad], unshrinkable)
    assert len(cluster.made) <= 10
    assert {value for _, _, _, value in cluster.written} == {b"value 0", b"value 1", b"value 2"}


async def test_a_missing_topic_is_named() -> None:
    async with started(deadline_s=0.01) as (cluster, delivery, _):
        cluster.away, cluster.missing = True, TOPICS[1]
        with pytest.raises(BrokerError, match="topic rejected-tweets: "):
            await delivery.deliver(records(1, TOPICS[1]), unshrinkable)


@pytest.mark.parametrize("announces", [True, False], ids=["limit announced", "limit not announced"])
async def test_only_the_record_above_the_limit_is_replaced(announces: bool) -> None:
    """Twelve letters to one partition; the broker refuses batches of more than 30 bytes."""
    shrunk: list[int] = []

    def shrink(record: ProducerRecord) -> ProducerRecord:
        shrunk.append(record.source)
        return replace(record, topic=TOPICS[1], value=None)

    sent = [replace(record, key=b"k") for record in records(12)]
    sent[5] = replace(sent[5], value=b"large" * 10)
    async with started() as (cluster, delivery, _):
        cluster.limit, cluster.announces = 30, announces
        await delivery.deliver(sent, shrink)
    assert shrunk == [5]
    assert Counter((topic, value) for topic, _, _, value in cluster.written) == Counter(
        [(TOPICS[1], None), *((TOPICS[0], b"value %d" % n) for n in range(12) if n != 5)]
    )
    if announces:
        assert (cluster.refused, len(cluster.made)) == (1, 2)


async def test_a_record_above_the_announced_limit_is_never_sent() -> None:
    async with started() as (cluster, delivery, _):
        cluster.limit = 7
        await delivery.deliver(records(1), lambda record: replace(record, value=b"small"))
        cluster.limit = 8
        await delivery.deliver(records(1), unshrinkable)
        # The first was refused, as the limit was lowered after the start; then it was known.
        assert cluster.refused == 1
        cluster.limit = 7
        with pytest.raises(MessageSizeTooLargeError):
            await delivery.deliver(records(3), unshrinkable)


async def test_a_broker_that_takes_less_than_it_announces_gets_smaller_batches() -> None:
    async with started() as (cluster, delivery, _), asyncio.timeout(10):
        cluster.limit, cluster.announced = 10, 1000
        await delivery.deliver(records(9), unshrinkable)
    assert {value for _, _, _, value in cluster.written} == {b"value %d" % n for n in range(9)}


async def test_a_refusal_in_one_partition_repeats_no_record_of_another() -> None:
    async with started() as (cluster, delivery, _):
        cluster.errors.extend([MessageSizeTooLargeError(), None, None, None])
        await delivery.deliver(records(20), lambda record: record)
    written = Counter(value for _, _, _, value in cluster.written)
    assert written == Counter(b"value %d" % n for n in range(20))
