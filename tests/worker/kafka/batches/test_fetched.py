"""The commands read past what nobody can read, say so, and stay small."""

import resource
from typing import Any

from tests.broker.clients import create, write
from tests.broker.wire import Idempotent
from tests.worker.kafka.batches.made import bomb
from worker.broker.running import running
from worker.config import Config, KafkaConfig
from worker.kafka.batches.header import Header
from worker.kafka.reading import connected

MIB = 2**20


def peak() -> int:
    """The most memory that this process ever had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_a_bomb_between_two_posts(capsys: Any) -> None:
    with running() as address:
        create(address, "tweets")
        write(address, "tweets", [b"before"])
        stranger = Idempotent(address, "tweets")
        poison = bomb(4, 48 * MIB)
        assert stranger.produce(poison).error_code == 0
        write(address, "tweets", [b"after"], compression_type="gzip")
        before = peak()
        with connected(Config(kafka=KafkaConfig(bootstrap_servers=address))) as cluster:
            found = [row for batch in cluster.read("tweets") for row in batch]
    last = 1 + Header.of(poison).last_offset_delta
    assert [(row.offset, row.value) for row in found] == [(0, b"before"), (last + 1, b"after")]
    told = capsys.readouterr().err
    assert told.startswith(f"newsift: offsets 1-{last} of tweets, partition 0, are passed over ")
    assert told.count("\n") == 1
    assert peak() - before < 120 * MIB
