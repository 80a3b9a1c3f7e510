"""Batches that unpack to more than memory holds, or to nothing: passed over, and said so."""

from collections.abc import Callable
from functools import partial
from hashlib import sha256

import cramjam
import pytest

from newsift.broker.server import Address
from tests.broker.clients import until
from tests.broker.conftest import ASKED
from tests.hostile.attack import Attack, attacked, headers
from tests.hostile.batches import ZSTD, batch, bomb, planted, produce, record
from tests.hostile.target import MIB, Target, post

SIZES = {"gzip": 512, "snappy": 128, "lz4": 512, "zstd": 1024}  # MiB; snappy packs 21 to 1
GOOD = record(post("inside", "storm"))


def write(target: Target, kind: str, data: bytes) -> None:
    """Put a batch into the first partition, whatever the embedded broker thinks of it."""
    if isinstance(target.server, Address):
        planted(target.server, target.topics[kind], data)
    else:
        assert produce(target.server.address, target.topics[kind], data) == 0


def passed_over(attack: Attack, reason: str, count: int = 1) -> None:
    """One dead letter without value stands for a whole batch, and names its place."""
    (letter,) = attack.refused(reason)
    told = headers(letter)
    first = int(told["source"].rsplit("-", 1)[1])
    assert letter.value is None
    assert told["offsets"] == f"{first}-{first + count - 1}"


@pytest.mark.parametrize("codec", SIZES)
def test_a_bomb_among_the_posts(target: Target, codec: str) -> None:
    size = SIZES[codec] * MIB
    with attacked(target) as attack:
        write(target, "posts", bomb(codec, size))
    passed_over(attack, "limits.batch_bytes", size // (64 * MIB))


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_bomb_among_the_seeds(target: Target, codec: str) -> None:
    """It is passed over, and the seeds before and after it serve."""
    with attacked(target):
        write(target, "seeds", bomb(codec, 192 * MIB, b"bomb"))
        target.write("seeds", [b'{"text": "a game of cat music"}'], key=b"after")
        until(partial(target.live, "flood", "after"))
    target.forget(b"after")


DAMAGED: dict[str, Callable[[], bytes]] = {
    "its checksum is wrong": lambda: batch(GOOD, crc=1),
    "it is cut off": lambda: batch(GOOD[:-5]),
    "its record is longer than it": lambda: batch(b"\xfe\x01" + GOOD[1:]),
    "it holds fewer records than it says": lambda: batch(GOOD, 3),
    "its record has a key longer than it": lambda: batch(b"\x10\x00\x00\x00\xfe\x7f" + bytes(6)),
    "it is no zstd": lambda: batch(GOOD, codec=ZSTD),
    "its codec is unknown": lambda: batch(GOOD, codec=7),
    "it is of an unknown format": lambda: batch(GOOD, magic=9),
    "it has a negative count": lambda: batch(GOOD, record_count=-2),
}


@pytest.mark.skipif(ASKED, reason="Apache Kafka takes no damaged batch: see the embedded broker")
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_batch_among_the_posts(target: Target, damage: str) -> None:
    with attacked(target) as attack:
        write(target, "posts", DAMAGED[damage]())
    (letter,) = attack.refused("bad_batch")
    assert letter.value is None


@pytest.mark.skipif(ASKED, reason="Apache Kafka takes no damaged batch: see the embedded broker")
def test_a_damaged_batch_among_the_seeds(target: Target) -> None:
    with attacked(target):
        write(target, "seeds", batch(GOOD, crc=1))
        target.write("seeds", [b'{"text": "a game of cat music"}'], key=b"after")
        until(partial(target.live, "flood", "after"))
    target.forget(b"after")


def test_dead_letters_of_one_batch_carry_a_bounded_number_of_bytes(target: Target) -> None:
    """A batch of 1.5 KB made dead letters of 32 MB; a retry still sends every original."""
    body = b"".join(record(b"x" * 1_000_000, offset=n) for n in range(32))
    with attacked(target) as attack:
        write(target, "posts", batch(bytes(cramjam.zstd.compress(body)), 32, ZSTD))
    letters = attack.refused("bad_json", 32)
    sizes = [len(letter.value or b"") for letter in letters]
    assert sizes == [1_000_000] * 16 + [0] * 16
    digest = sha256(b"x" * 1_000_000).hexdigest()
    assert {(told["bytes"], told["sha256"]) for told in map(headers, letters)} == {
        ("1000000", digest)
    }


def test_a_batch_of_the_largest_size_is_read(target: Target) -> None:
    """What stays within the limit is no bomb: 31 posts of 1 MB, 100 times smaller as zstd."""
    posts = [post(str(n), "cat " * 250_000) for n in range(31)]
    body = b"".join(record(value, offset=n) for n, value in enumerate(posts))
    with attacked(target) as attack:
        write(target, "posts", batch(bytes(cramjam.zstd.compress(body)), 31, ZSTD))
    assert attack.letters == []


def test_timestamps_at_the_edges_of_time(target: Target) -> None:
    """A record's time may be any number: no match, no metric and no dead letter trips over it."""
    with attacked(target) as attack:
        for at in (-1, 0, 2**63 - 1, -(2**63)):
            stamps = {"first_timestamp": at, "max_timestamp": at}
            if isinstance(target.server, Address):
                write(target, "posts", batch(record(post(str(at), "storm flood")), **stamps))
                write(target, "posts", batch(record(b"{"), **stamps))
        until(lambda: len(attack.letters) == 4 * isinstance(target.server, Address))
