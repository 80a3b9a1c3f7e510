"""Batches that unpack to more than memory holds, or not at all, are skipped and reported."""

from functools import partial
from hashlib import sha256

import pytest

from newsift.broker.server import Address
from tests.broker.clients import until
from tests.broker.conftest import ASKED
from tests.hostile.attack import attacked, headers
from tests.hostile.batches import plant
from tests.hostile.target import MIB, Target, post
from tests.worker.kafka.batches.made import CODECS, PACK, bomb, record, sealed

SIZES = {"gzip": 512, "snappy": 128, "lz4": 512, "zstd": 1024}  # MiB; snappy packs 21 to 1
ZSTD = CODECS["zstd"]
GOOD = record(0, 0, b"any", post("inside", "storm"))
DAMAGED = {
    "checksum": sealed(GOOD, 0, 0, 1)[:-1] + b"x",
    "count": sealed(GOOD, 0, 0, 3),
    "codec": sealed(GOOD, 7, 0, 1),
}


@pytest.mark.parametrize("codec", SIZES)
def test_a_bomb_among_the_posts_is_one_dead_letter(target: Target, codec: str) -> None:
    with attacked(target) as attack:
        plant(target.server, target.topics["posts"], bomb(CODECS[codec], SIZES[codec] * MIB))
    (letter,) = attack.refused("limits.batch_bytes")
    offset = headers(letter)["source"].rsplit("-", 1)[1]
    assert (letter.value, headers(letter)["offsets"]) == (None, f"{offset}-{offset}")


@pytest.mark.parametrize("damage", DAMAGED)
@pytest.mark.skipif(ASKED, reason="Apache Kafka takes no damaged batch")
def test_a_damaged_batch_among_the_posts_is_one_dead_letter(target: Target, damage: str) -> None:
    with attacked(target) as attack:
        plant(target.server, target.topics["posts"], DAMAGED[damage])
    (letter,) = attack.refused("bad_batch")
    assert letter.value is None


@pytest.mark.parametrize("attack", ["zstd", "lz4", "damaged"])
def test_a_hostile_batch_among_the_seeds_is_skipped(target: Target, attack: str) -> None:
    if attack == "damaged" and not isinstance(target.server, Address):
        pytest.skip("Apache Kafka takes no damaged batch")
    codec = CODECS.get(attack, 0)
    data = bomb(codec, 192 * MIB, key=b"bomb") if codec else DAMAGED["checksum"]
    with attacked(target):
        plant(target.server, target.topics["seeds"], data)
        target.write("seeds", [b'{"text": "a game of cat music"}'], key=b"after")
        until(partial(target.live, "flood", "after"))
    target.forget(b"after")


def test_dead_letters_of_one_batch_carry_a_bounded_number_of_bytes(target: Target) -> None:
    """A batch of 1.5 KB made dead letters of 32 MB; a retry still sends every original."""
    body = b"".join(record(0, n, b"any", b"x" * 1_000_000) for n in range(32))
    with attacked(target) as attack:
        plant(target.server, target.topics["posts"], sealed(PACK[ZSTD](body), ZSTD, 0, 32))
    letters = attack.refused("bad_json", 32)
    sizes = [len(letter.value or b"") for letter in letters]
    assert sizes == [1_000_000] * 16 + [0] * 16
    digest = sha256(b"x" * 1_000_000).hexdigest()
    assert {(each["bytes"], each["sha256"]) for each in map(headers, letters)} == {
        ("1000000", digest)
    }


def test_a_batch_of_the_largest_size_is_read(target: Target) -> None:
    posts = [post(str(n), "cat " * 250_000) for n in range(31)]
    body = b"".join(record(0, n, b"any", value) for n, value in enumerate(posts))
    with attacked(target) as attack:
        plant(target.server, target.topics["posts"], sealed(PACK[ZSTD](body), ZSTD, 0, 31))
    assert attack.letters == []


@pytest.mark.skipif(ASKED, reason="Apache Kafka takes no such timestamp")
def test_any_timestamp_is_processed(target: Target) -> None:
    with attacked(target) as attack:
        for at in (-1, 0, 2**63 - 1, -(2**63)):
            for value in (post(str(at), "storm flood"), b"{"):
                times = {"first_timestamp": at, "max_timestamp": at}
                data = sealed(record(0, 0, b"any", value), 0, 0, 1, **times)
                plant(target.server, target.topics["posts"], data)
        until(lambda: len(attack.letters) == 4)
