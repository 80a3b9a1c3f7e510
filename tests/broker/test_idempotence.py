"""An idempotent producer: a batch sent twice is kept once, and a gap or an old epoch is refused."""

import asyncio

from aiokafka import AIOKafkaProducer

from tests.broker.clients import create, read_to_end
from tests.broker.wire import NO_ERROR, Idempotent

OUT_OF_ORDER = 45
DUPLICATE = 46
FENCED = {47, 90}  # invalid producer epoch; fenced


def values(address: str, topic: str) -> list[bytes]:
    return [record.value for record in read_to_end(address, topic)]


def test_a_repeated_batch_is_stored_once_and_a_gap_is_refused(address: str, unique: str) -> None:
    create(address, unique)
    producer, other = Idempotent(address, unique), Idempotent(address, unique)
    first = producer.send(0, [b"a", b"b"])
    second = producer.send(2, [b"c"])
    again = producer.send(0, [b"a", b"b"])
    assert [each.error_code for each in (first, second, again)] == [NO_ERROR] * 3
    assert [each.base_offset for each in (first, second, again)] == [0, 2, 0]
    assert producer.send(7, [b"lost four"]).error_code == OUT_OF_ORDER
    assert other.send(0, [b"d"]).error_code == NO_ERROR
    assert values(address, unique) == [b"a", b"b", b"c", b"d"]
    producer.wire.close()
    other.wire.close()


def test_a_batch_older_than_the_window_is_not_stored_again(address: str, unique: str) -> None:
    create(address, unique)
    producer = Idempotent(address, unique)
    for n in range(8):
        assert producer.send(n, [b"%d" % n]).error_code == NO_ERROR
    assert producer.send(0, [b"0"]).error_code in {DUPLICATE, OUT_OF_ORDER}
    assert values(address, unique) == [b"%d" % n for n in range(8)]
    producer.wire.close()


def test_an_older_epoch_is_refused(address: str, unique: str) -> None:
    create(address, unique)
    producer = Idempotent(address, unique)
    assert producer.send(0, [b"a"], epoch=producer.epoch + 1).error_code == NO_ERROR
    assert producer.send(1, [b"b"], epoch=producer.epoch).error_code in FENCED
    assert values(address, unique) == [b"a"]
    producer.wire.close()


def test_a_damaged_batch_is_refused(address: str, unique: str) -> None:
    create(address, unique)
    producer = Idempotent(address, unique)
    whole = producer.batch(0, [b"a" * 100])
    damaged = bytearray(whole)
    damaged[-20] ^= 1
    assert producer.produce(bytes(damaged)).error_code == 2
    assert producer.produce(whole).error_code == NO_ERROR
    assert values(address, unique) == [b"a" * 100]
    producer.wire.close()


def test_aiokafkas_idempotent_producer_writes_each_record_once(address: str, unique: str) -> None:
    create(address, unique)

    async def story() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=address, enable_idempotence=True, max_batch_size=500
        ) as client:
            sent = [await client.send(unique, b"%d" % n, partition=0) for n in range(500)]
            await asyncio.gather(*sent)

    asyncio.run(story())
    assert values(address, unique) == [b"%d" % n for n in range(500)]
