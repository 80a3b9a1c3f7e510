"""Topics as an administrator makes and unmakes them."""

from collections import Counter
from typing import Any

from kafka.protocol.admin import (
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteTopicsResponse,
)

from worker.broker.codes import Code, Refused, refusal_of
from worker.broker.configs import SETTINGS
from worker.broker.settings import NODE, Cluster
from worker.broker.topics import Topic
from worker.broker.wire import Call

CREATED = CreateTopicsResponse.CreatableTopicResult
SET_BY_TOPIC, SET_BY_DEFAULT = 1, 5


async def make_topics(cluster: Cluster, call: Call) -> Any:
    """Make topics, or only say whether they could be made."""
    times = Counter(topic.name for topic in call.body.topics)
    topics = []
    for asked in call.body.topics:
        try:
            if times[asked.name] > 1:
                raise Refused(Code.INVALID_REQUEST, "Duplicate topic name.")
            given = {each.name: each.value for each in asked.configs}
            partitions = _partitions(asked)
            topic = cluster.topics.create(asked.name, partitions, given, call.body.validate_only)
            topics.append(_created(topic))
        except Refused as refused:
            topics.append(
                CREATED(name=asked.name, error_code=refused.code, error_message=refused.why)
            )
    return CreateTopicsResponse(version=call.version, topics=topics)


async def delete_topics(cluster: Cluster, call: Call) -> Any:
    """Forget topics, and what groups have committed for them."""
    kind = DeleteTopicsResponse.DeletableTopicResult
    responses = []
    for name in call.body.topic_names:
        code, why = refusal_of(cluster.topics.delete, name)
        if not code:
            cluster.groups.forget_topic(name)
        responses.append(kind(name=name, error_code=code, error_message=why))
    return DeleteTopicsResponse(version=call.version, responses=responses)


async def create_partitions(cluster: Cluster, call: Call) -> Any:
    """Give topics more partitions."""
    kind = CreatePartitionsResponse.CreatePartitionsTopicResult

    def grow(asked: Any) -> None:
        for each in asked.assignments or ():
            _check_replicas(each.broker_ids)
        cluster.topics.grow(asked.name, asked.count, call.body.validate_only)

    results = []
    for asked in call.body.topics:
        code, why = refusal_of(grow, asked)
        results.append(kind(name=asked.name, error_code=code, error_message=why))
    return CreatePartitionsResponse(version=call.version, results=results)


def _partitions(asked: Any) -> int:
    """How many partitions a topic is to have; its replicas can only be this one node."""
    if asked.assignments:
        if asked.num_partitions != -1 or asked.replication_factor != -1:
            raise Refused(
                Code.INVALID_REQUEST, "with an assignment, partitions and replication must be -1"
            )
        for each in asked.assignments:
            _check_replicas(each.broker_ids)
        if sorted(each.partition_index for each in asked.assignments) != list(
            range(len(asked.assignments))
        ):
            raise Refused(Code.INVALID_REPLICA_ASSIGNMENT, "partitions must count up from 0")
        return len(asked.assignments)
    if asked.replication_factor not in (-1, 1):
        raise Refused(
            Code.INVALID_REPLICATION_FACTOR,
            f"Replication factor {asked.replication_factor} on 1 broker; use 1 or -1",
        )
    return int(asked.num_partitions)


def _check_replicas(brokers: list[int]) -> None:
    if brokers != [NODE]:
        raise Refused(Code.INVALID_REPLICA_ASSIGNMENT, f"replicas {brokers}; there is only {NODE}")


def _created(topic: Topic) -> Any:
    kind = CREATED.CreatableTopicConfigs
    return CREATED(
        name=topic.name, topic_id=topic.id, error_code=Code.NONE, error_message=None,
        num_partitions=len(topic.logs), replication_factor=1,
        configs=[
            kind(
                name=name, value=topic.config.text(name), read_only=False, is_sensitive=False,
                config_source=SET_BY_TOPIC if name in topic.config.given else SET_BY_DEFAULT,
            )
            for name in SETTINGS
        ],
    )  # fmt: skip
