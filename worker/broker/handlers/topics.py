"""Topics as an administrator makes, sets and unmakes them."""

from collections.abc import Iterable
from typing import Any

from kafka.protocol.admin import (
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteTopicsResponse,
    DescribeConfigsResponse,
    IncrementalAlterConfigsResponse,
)

from worker.broker.codes import Code, Refused, refusal_of
from worker.broker.configs import SETTINGS, TopicConfig
from worker.broker.settings import Cluster
from worker.broker.topics import Topic
from worker.broker.wire import Call

CREATED = CreateTopicsResponse.CreatableTopicResult
DESCRIBED = DescribeConfigsResponse.DescribeConfigsResult
SET_BY_TOPIC, SET_BY_DEFAULT = 1, 5
TOPIC = 2
SET, DELETE = 0, 1


async def make_topics(cluster: Cluster, call: Call) -> Any:
    """Make topics, or only say whether they could be made."""
    topics = []
    for asked in call.body.topics:
        try:
            _check_replicas(asked.replication_factor, asked.assignments)
            given = {each.name: each.value for each in asked.configs}
            only_check = call.body.validate_only
            topic = cluster.topics.create(asked.name, asked.num_partitions, given, only_check)
            topics.append(_created(topic))
        except Refused as refused:
            code, why = refused.code, refused.why
            topics.append(CREATED(name=asked.name, error_code=code, error_message=why))
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
        _check_replicas(1, asked.assignments)
        cluster.topics.grow(asked.name, asked.count, call.body.validate_only)

    results = []
    for asked in call.body.topics:
        code, why = refusal_of(grow, asked)
        results.append(kind(name=asked.name, error_code=code, error_message=why))
    return CreatePartitionsResponse(version=call.version, results=results)


async def describe_configs(cluster: Cluster, call: Call) -> Any:
    """What topics are set to."""
    results = []
    for asked in call.body.resources:
        entries: list[Any] = []
        told = _told(asked, *refusal_of(_describe, cluster, asked, entries))
        results.append(DESCRIBED(configs=entries, **told))
    return DescribeConfigsResponse(version=call.version, results=results)


async def alter_configs(cluster: Cluster, call: Call) -> Any:
    """Set and unset single settings of a topic."""
    kind, only_check = IncrementalAlterConfigsResponse, call.body.validate_only
    responses = [
        kind.AlterConfigsResourceResponse(
            **_told(asked, *refusal_of(_alter, cluster, asked, only_check))
        )
        for asked in call.body.resources
    ]
    return kind(version=call.version, responses=responses)


def _told(asked: Any, code: Code, why: str | None) -> dict[str, Any]:
    return {
        "error_code": code, "error_message": why, "resource_type": asked.resource_type,
        "resource_name": asked.resource_name,
    }  # fmt: skip


def _check_replicas(copies: int, assignments: Iterable[Any] | None) -> None:
    if assignments:
        said = "there is one node, which gets every partition; give their number instead"
        raise Refused(Code.INVALID_REPLICA_ASSIGNMENT, said)
    if copies not in (-1, 1):
        said = f"Replication factor {copies} on 1 broker; use 1 or -1"
        raise Refused(Code.INVALID_REPLICATION_FACTOR, said)


def _created(topic: Topic) -> Any:
    return CREATED(
        name=topic.name, topic_id=topic.id, error_code=Code.NONE, error_message=None,
        num_partitions=len(topic.logs), replication_factor=1,
        configs=_settings(CREATED.CreatableTopicConfigs, topic.config, SETTINGS),
    )  # fmt: skip


def _settings(kind: Any, config: TopicConfig, names: Iterable[str], **more: Any) -> list[Any]:
    return [
        kind(
            name=name, value=config.text(name), read_only=False, is_sensitive=False,
            config_source=SET_BY_TOPIC if name in config.given else SET_BY_DEFAULT, **more,
        )
        for name in names
    ]  # fmt: skip


def _of_topic(cluster: Cluster, asked: Any) -> Topic:
    if asked.resource_type != TOPIC:
        raise Refused(Code.INVALID_REQUEST, "only topics have settings that can be asked for")
    return cluster.topics[asked.resource_name]


def _describe(cluster: Cluster, asked: Any, entries: list[Any]) -> None:
    config, wanted = _of_topic(cluster, asked).config, asked.configuration_keys
    names = [name for name in SETTINGS if wanted is None or name in wanted]
    entries += _settings(DESCRIBED.DescribeConfigsResourceResult, config, names, synonyms=[])


def _alter(cluster: Cluster, asked: Any, only_check: bool) -> None:
    topic = _of_topic(cluster, asked)
    values: dict[str, str | None] = dict(topic.config.given)
    for change in asked.configs:
        if change.config_operation == SET:
            values[change.name] = change.value
        elif change.config_operation == DELETE:
            values.pop(change.name, None)
        else:
            said = f"{change.name}: operation {change.config_operation} is not possible; set it"
            raise Refused(Code.INVALID_CONFIG, said)
    config = TopicConfig(values)
    if not only_check:
        topic.config = config
