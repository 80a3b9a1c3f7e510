"""Topics that go, change or hold what nobody reads: each worker here is the test's own."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.structs import OffsetAndMetadata

from newsift.broker.server import Address
from tests.broker.clients import create, until
from tests.broker.conftest import ASKED
from tests.hostile.attack import ANSWERS_WITHIN_S, attacked
from tests.hostile.conftest import MakeTarget, waits_long
from tests.hostile.target import ARTICLE, Target, post, seed
from tests.hostile.witness import answer

STALL_S = 3.0
WATCHED = {"stream": {"stall_s": STALL_S}}


def ready(target: Target) -> bool:
    """Whether the worker says that it is ready."""
    try:
        return '"ready": true' in answer(target.port, "/readyz")
    except ConnectionError:
        return False


def test_a_control_topic_deleted_live_comes_back_by_nobody(own_target: MakeTarget) -> None:
    """It came back with four partitions, as brokers make topics, and split the workers."""
    target = own_target()
    with attacked(target):
        pass
    topic = target.topics["seeds"]
    target.admin.delete_topics([topic])
    until(lambda: not ready(target))
    time.sleep(2)  # so long, each client of the worker has asked for its topics again
    assert topic not in target.admin.list_topics()
    assert target.worker.alive()
    target.write("posts", [post("held", ARTICLE)])
    create(target.server.address, topic, cleanup_policy="compact")
    target.write("seeds", [seed(ARTICLE)], key=b"again")
    until(lambda: target.live("again") and ready(target))
    assert {row["id"] for row in target.seeds()["live"]} == {"again"}
    with attacked(target):
        pass
    (held,) = [json.loads(r.value) for r in target.matches.look() if r.key == b"held"]
    assert [match["seed_id"] for match in held["matches"]] == ["again"]


@waits_long
def test_a_dead_letter_that_the_broker_refuses_ends_the_worker_by_name(
    own_target: MakeTarget,
) -> None:
    """A compacted topic takes nothing without a key: 1,359 producers came and went in a minute."""
    target = own_target()
    with attacked(target):
        pass
    topic = target.topics["rejected"]
    compact = {"cleanup.policy": "compact"}
    target.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, compact)])
    target.write("posts", [b"{"], key=None)
    assert target.worker.ended() == 1
    last = target.worker.said.splitlines()[-1]
    assert last.startswith("newsift: ")
    assert topic in last
    assert target.worker.said.count("\n") < 100


def test_a_commit_beyond_the_end_is_told_and_gone_back_on(own_target: MakeTarget) -> None:
    target = own_target()
    with attacked(target):
        pass
    assert target.worker.terminate() == 0
    place = TopicPartition(target.topics["posts"], 0)
    commit(target, place, 10**9)
    target.starts_again()
    with attacked(target):
        pass
    assert target.metric("newsift_offsets_lost_total") >= 1


def commit(target: Target, place: TopicPartition, offset: int) -> None:
    """Commit an offset in the name of the group, which has no member now."""
    client = KafkaConsumer(
        bootstrap_servers=target.server.address, group_id=target.group, enable_auto_commit=False
    )
    client.assign([place])
    client.commit({place: OffsetAndMetadata(offset, "", -1)})
    client.close(autocommit=False)


@contextmanager
def transaction(target: Target, name: str) -> Iterator[Any]:
    """A producer inside a transaction that the block has to end."""
    client = KafkaProducer(
        bootstrap_servers=target.server.address, transactional_id=f"{target.name}-{name}"
    )
    client.init_transactions()
    client.begin_transaction()
    yield client
    client.close(timeout=5)


apache_alone = pytest.mark.skipif(
    not ASKED, reason="the embedded broker has no transactions: see Apache Kafka"
)


def only_on_apache(target: Target) -> None:
    """Transactions are refused by the embedded broker, by name."""
    if isinstance(target.server, Address):
        pytest.skip("the embedded broker has no transactions")


@apache_alone
def test_markers_and_aborted_posts(own_target: MakeTarget) -> None:
    """A marker is no post that waits, and what was aborted was never said."""
    target = own_target(**WATCHED)
    only_on_apache(target)
    topic = target.topics["posts"]
    with attacked(target):
        with transaction(target, "kept") as client:
            client.send(topic, post("kept", ARTICLE), partition=0)
            client.commit_transaction()
        with transaction(target, "aborted") as client:
            client.send(topic, post("aborted", ARTICLE), partition=0)
            client.send(topic, b"{", partition=1)
            client.flush()
            client.abort_transaction()
    until(lambda: target.lag() == 0)
    time.sleep(2 * STALL_S)  # the watchdog ended workers that had nothing left but a marker
    assert target.worker.alive(), target.worker.said
    found = {record.key for record in target.matches.look()}
    assert b"kept" in found
    assert b"aborted" not in found
    assert not target.rejected.look()


@apache_alone
def test_a_transaction_left_open_holds_its_partition_alone(own_target: MakeTarget) -> None:
    target = own_target(**WATCHED)
    only_on_apache(target)
    with transaction(target, "open") as client:
        client.send(target.topics["posts"], post("open", ARTICLE), partition=0)
        client.flush()
        target.write("posts", [post("behind", ARTICLE)], partition=0)
        target.write("posts", [post("beside", ARTICLE)], partition=1)
        until(lambda: b"beside" in {record.key for record in target.matches.look()})
        time.sleep(2 * STALL_S)
        assert target.worker.alive(), target.worker.said
        assert {record.key for record in target.matches.look()} == {b"beside"}
        client.commit_transaction()
    until(lambda: {b"open", b"behind"} <= {record.key for record in target.matches.look()})
    assert answer(target.port, "/healthz", within_s=ANSWERS_WITHIN_S)
