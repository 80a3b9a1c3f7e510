"""Delivery with a fake producer: late, failing and refused acknowledgements."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

import pytest
from aiokafka.errors import (
    KafkaError,
    MessageSizeTooLargeError,
    NotLeaderForPartitionError,
    OutOfOrderSequenceNumber,
    TopicAuthorizationFailedError,
)
from hypothesis import given
from hypothesis import strategies as st

import worker.kafka.delivery
from tests.worker.stream.fakes import FakeCluster, Sent
from worker.errors import BrokerError
from worker.kafka.delivery import MISSED, Delivery, Patience
from worker.kafka.producer import PARTITION, InvalidRecordError, Letter

TOPICS = ("matched-tweets", "rejected-tweets")
Story = Callable[[FakeCluster, Delivery, list[bool]], Awaitable[None]]


@pytest.fixture(autouse=True, scope="module")
def hasty() -> Iterator[None]:
    """Wait a thousandth of the time that the worker waits between attempts."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("BACKOFF_S", "REFUSED_S", "LONGEST_S"):
            patch.setattr(worker.kafka.delivery, name, getattr(worker.kafka.delivery, name) / 1000)
        yield


def letters(count: int, topic: str = TOPICS[0]) -> list[Letter]:
    return [Letter(topic, b"%d" % n, b"value %d" % n, (), n) for n in range(count)]


def unshrinkable(_: Letter) -> Letter | None:
    return None


def play(story: Story, deadline_s: float = 0.01, parcel: int = 1000, stuck: int = 0) -> FakeCluster:
    """Run a story with a started delivery; the list tells when it said that the output stalls."""

    async def run() -> FakeCluster:
        cluster, stalls = FakeCluster(), list[bool]()
        cluster.parcel, cluster.stuck = parcel, stuck
        delivery = Delivery(cluster.producer, TOPICS, deadline_s, stalls.append)
        await delivery.start()
        await story(cluster, delivery, stalls)
        await delivery.stop()
        assert all(producer.stopped for producer in cluster.made)
        return cluster

    return asyncio.run(run())


@given(
    st.lists(st.tuples(st.sampled_from(TOPICS), st.none() | st.binary(max_size=4)), max_size=30),
    st.integers(1, 60),
    st.lists(st.sampled_from([None, NotLeaderForPartitionError(), OutOfOrderSequenceNumber()]),
             max_size=8),
)  # fmt: skip
def test_every_letter_arrives_whatever_fails_on_the_way(
    addressed: list[tuple[str, bytes | None]], parcel: int, errors: list[KafkaError | None]
) -> None:
    sent = [Letter(topic, key, b"value %d" % n, (), n) for n, (topic, key) in enumerate(addressed)]

    async def story(cluster: FakeCluster, delivery: Delivery, _: list[bool]) -> None:
        cluster.errors.extend(errors)
        await delivery.deliver(sent, unshrinkable)

    written = play(story, 5.0, parcel=parcel).written
    assert Counter((topic, key, value) for topic, _, key, value in written) == Counter(
        (letter.topic, letter.key, letter.value) for letter in sent
    )


def test_records_of_one_key_share_a_partition_and_keep_their_order() -> None:
    sent = [Letter(TOPICS[0], b"key %d" % (n % 5), b"%d" % n, (), n) for n in range(50)]

    async def story(_: FakeCluster, delivery: Delivery, __: list[bool]) -> None:
        await delivery.deliver(sent, unshrinkable)

    written = play(story, 5.0).written
    for number in range(5):
        key = b"key %d" % number
        mine = [(partition, value) for _, partition, k, value in written if k == key]
        assert [value for _, value in mine] == [x.value for x in sent if x.key == key]
        assert {partition for partition, _ in mine} == {PARTITION(key, [0, 1, 2, 3], [])}


def test_it_does_not_return_before_the_acknowledgement() -> None:
    async def story(cluster: FakeCluster, delivery: Delivery, stalls: list[bool]) -> None:
        cluster.away, cluster.answering = True, False
        delivering = asyncio.ensure_future(delivery.deliver(letters(3), unshrinkable))
        while True not in stalls:
            await asyncio.sleep(0)
        assert not delivering.done()
        assert cluster.written == []
        cluster.away = False
        cluster.back.set()
        await delivering
        assert stalls[-1] is False

    assert len(play(story).written) == 3


def test_an_outage_of_many_deadlines_is_waited_for_and_nothing_is_sent_twice() -> None:
    """aiokafka goes on trying: a second attempt of ours would only make duplicates."""

    async def story(cluster: FakeCluster, delivery: Delivery, stalls: list[bool]) -> None:
        cluster.away, cluster.answering = True, False
        delivering = asyncio.ensure_future(delivery.deliver(letters(3), unshrinkable))
        while stalls.count(True) < 4 * MISSED:
            await asyncio.sleep(0)
        attempts = cluster.attempts
        cluster.away = False
        cluster.back.set()
        await delivering
        assert cluster.attempts == attempts

    cluster = play(story)
    assert len(cluster.written) == 3
    assert len(cluster.made) == 1


def test_a_producer_that_is_stuck_while_the_broker_is_well_is_replaced() -> None:
    async def story(_: FakeCluster, delivery: Delivery, __: list[bool]) -> None:
        await delivery.deliver(letters(3), unshrinkable)

    cluster = play(story, stuck=1)
    assert len(cluster.written) == 3
    assert len(cluster.made) == 2


def test_a_broker_that_is_well_and_never_acknowledges_is_an_error() -> None:
    async def story(_: FakeCluster, delivery: Delivery, __: list[bool]) -> None:
        with pytest.raises(BrokerError, match="no acknowledgement from matched-tweets or rejec"):
            await delivery.deliver(letters(3), unshrinkable)

    assert len(play(story, stuck=100).made) == 2


def test_a_refusal_is_raised_and_not_retried() -> None:
    async def story(cluster: FakeCluster, delivery: Delivery, _: list[bool]) -> None:
        cluster.errors.append(TopicAuthorizationFailedError(TOPICS[0]))
        with pytest.raises(TopicAuthorizationFailedError):
            await delivery.deliver(letters(1), unshrinkable)

    assert play(story, 5.0).attempts == 1


def test_a_record_that_is_refused_for_good_costs_few_producers_and_names_itself() -> None:
    """As a dead letter without a key that goes to a compacted topic; neighbours still arrive."""

    async def story(cluster: FakeCluster, delivery: Delivery, stalls: list[bool]) -> None:
        cluster.unfit = b"no key"
        bad = Letter(TOPICS[1], None, b"no key", (), 0)
        said = r"topic rejected-tweets: .*InvalidRecordError: .* key.*newsift topics check"
        with pytest.raises(BrokerError, match=said):
            await delivery.deliver([*letters(3), bad], unshrinkable)

    cluster = play(story, 5.0)
    assert len(cluster.made) <= 10
    assert sorted(value or b"" for _, _, _, value in cluster.written) == [
        b"value 0", b"value 1", b"value 2",
    ]  # fmt: skip


def test_a_missing_topic_is_an_error_that_names_it() -> None:
    async def story(cluster: FakeCluster, delivery: Delivery, _: list[bool]) -> None:
        cluster.away, cluster.missing = True, TOPICS[1]
        with pytest.raises(BrokerError, match=r"topic rejected-tweets: .*newsift topics check"):
            await delivery.deliver(letters(1, TOPICS[1]), unshrinkable)

    assert len(play(story).made) == 1


def test_an_outage_forgets_what_was_refused_before() -> None:
    patience = Patience(missed=2, refused=2)
    patience.outage()
    assert patience.refusal("t", InvalidRecordError()) == 0.0


def too_large(tells: bool) -> tuple[FakeCluster, list[int]]:
    """Twelve letters to one partition, one of which the broker never takes, of 30 bytes a batch."""
    asked: list[int] = []

    async def story(cluster: FakeCluster, delivery: Delivery, _: list[bool]) -> None:
        cluster.limit, cluster.tells = 30, tells

        def shrink(letter: Letter) -> Letter:
            asked.append(letter.source)
            return replace(letter, topic=TOPICS[1], value=None)

        one_place = [replace(letter, key=b"k") for letter in letters(12)]
        one_place[5] = replace(one_place[5], value=b"large" * 10)
        await delivery.deliver(one_place, shrink)

    return play(story, 5.0), asked


def all_but_the_sixth(written: list[Sent]) -> None:
    assert [value for topic, _, _, value in written if topic == TOPICS[1]] == [None]
    assert sorted(value or b"" for topic, _, _, value in written if topic == TOPICS[0]) == sorted(
        b"value %d" % n for n in range(12) if n != 5
    )


def test_a_limit_that_was_lowered_costs_one_refusal_and_a_producer() -> None:
    cluster, asked = too_large(tells=True)
    all_but_the_sixth(cluster.written)
    assert asked == [5]
    assert (cluster.refused, len(cluster.made)) == (1, 2)


def test_a_limit_that_is_not_told_is_found_out_with_fresh_producers() -> None:
    cluster, asked = too_large(tells=False)
    all_but_the_sixth(cluster.written)
    assert asked == [5]


def test_what_the_broker_says_is_too_large_is_never_sent() -> None:
    async def story(cluster: FakeCluster, delivery: Delivery, _: list[bool]) -> None:
        cluster.limit = 7
        await delivery.deliver(letters(1), lambda letter: replace(letter, value=b"small"))
        cluster.limit = 8
        await delivery.deliver(letters(1), unshrinkable)
        # The first was refused, as the limit was lowered after the start; then it was known.
        assert cluster.refused == 1
        cluster.limit = 7
        with pytest.raises(MessageSizeTooLargeError):
            await delivery.deliver(letters(3), unshrinkable)

    play(story, 5.0)


def test_what_is_under_way_to_other_partitions_is_not_sent_again_for_a_refusal() -> None:
    async def story(cluster: FakeCluster, delivery: Delivery, _: list[bool]) -> None:
        cluster.errors.extend([MessageSizeTooLargeError(), None, None, None])
        sent = letters(20)
        await delivery.deliver(sent, lambda letter: letter)

    written = play(story, 5.0).written
    assert Counter(value for _, _, _, value in written) == Counter(
        b"value %d" % n for n in range(20)
    )


def test_what_cannot_be_made_smaller_is_an_error() -> None:
    async def story(cluster: FakeCluster, delivery: Delivery, _: list[bool]) -> None:
        cluster.errors.append(MessageSizeTooLargeError())
        with pytest.raises(MessageSizeTooLargeError):
            await delivery.deliver(letters(1), unshrinkable)

    play(story, 5.0)
