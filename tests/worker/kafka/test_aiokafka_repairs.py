"""aiokafka's own classes still lack what is repaired: where one fails, a repair may go."""

from collections.abc import Callable
from inspect import signature

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.cluster import ClusterMetadata
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import UnknownError, for_code
from aiokafka.protocol.commit import OffsetCommitRequest
from aiokafka.protocol.group import HeartbeatRequest

from worker.kafka.aiokafka_repairs import FENCED_INSTANCE_ID, sticky_assignor

CLIENTS = AIOKafkaConsumer, AIOKafkaProducer
LACKS: dict[str, Callable[[], bool]] = {
    "no topic is made by asking for it": lambda: not any(
        "allow_auto_create_topics" in signature(client).parameters for client in CLIENTS
    ),
    "a level of compression": lambda: not any(
        "level" in name for name in signature(AIOKafkaProducer).parameters
    ),
    "replicas in sync": lambda: not any(
        "isr" in name or "sync" in name for name in vars(ClusterMetadata) if name[0] != "_"
    ),
    "a consumer's client": lambda: not hasattr(AIOKafkaConsumer, "client"),
    "a bound of what is read ahead": lambda: "prefetch_backoff" not in signature(
        AIOKafkaConsumer
    ).parameters and "prefetch_backoff" in signature(Fetcher).parameters,
    "commits of several partitions at once": lambda: [
        *signature(AIOKafkaConsumer.committed).parameters
    ] == ["self", "partition"],
    "the error of a fenced instance": lambda: for_code(FENCED_INSTANCE_ID) is UnknownError,
    "an instance in heartbeats and commits": lambda: not any(
        "instance" in name for kind in (HeartbeatRequest, OffsetCommitRequest)
        for name in signature(kind).parameters
    ),
    "a sticky assignor that knows its generation": lambda: (
        "on_generation_assignment" not in GroupCoordinator._on_join_complete.__code__.co_names
    ),
}  # fmt: skip


@pytest.mark.parametrize("part", LACKS)
def test_aiokafka_lacks(part: str) -> None:
    assert LACKS[part]()


def test_aiokafka_keeps_a_sticky_assignors_state_in_its_class() -> None:
    one, other = sticky_assignor(), sticky_assignor()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StickyPartitionAssignor, "generation", 3)
        assert (one.generation, other.generation) == (3, 3)
        one.on_generation_assignment(4)
    assert (one.generation, other.generation) == (4, StickyPartitionAssignor.DEFAULT_GENERATION_ID)
