"""Requests about topics, their settings, and the node itself."""

from collections.abc import Iterable
from typing import Any

from kafka.protocol.admin import (
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteTopicsResponse,
    DescribeConfigsResponse,
    IncrementalAlterConfigsResponse,
)
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer import InitProducerIdResponse
from kafka.protocol.sasl import SaslHandshakeResponse

from newsift.broker.codes import NO_TRANSACTIONS, Code, RequestError, run_for_error
from newsift.broker.settings import NODE_ID, Cluster
from newsift.broker.topics import SETTINGS, Topic, TopicConfig
from newsift.broker.wire import Call

GROUP_KEY_TYPE = 0
SET_BY_TOPIC, SET_BY_DEFAULT = 1, 5
TOPIC_RESOURCE = 2
SET_OPERATION, DELETE_OPERATION = 0, 1
MetadataTopic = MetadataResponse.MetadataResponseTopic
CreatedTopic = CreateTopicsResponse.CreatableTopicResult
DescribedResource = DescribeConfigsResponse.DescribeConfigsResult


async def cluster_metadata(cluster: Cluster, call: Call) -> Any:
    """Missing topics are created if the request allows it."""
    entries = call.body.topics
    if entries is None or (call.version == 0 and not entries):
        topics = [_metadata(topic) for topic in cluster.topics.values()]
    else:
        may_create = call.version < 4 or call.body.allow_auto_topic_creation
        topics = [_metadata_by_name(cluster, entry, may_create) for entry in entries]
    node = MetadataResponse.MetadataResponseBroker(
        NODE_ID, call.client.host, call.client.port, None
    )
    return MetadataResponse(
        brokers=[node], cluster_id=cluster.id, controller_id=NODE_ID,
        topics=topics,
    )  # fmt: skip


async def find_coordinator(cluster: Cluster, call: Call) -> Any:
    """This node coordinates every group; there are no transactions."""
    node: dict[str, Any] = {
        "node_id": NODE_ID, "host": call.client.host, "port": call.client.port,
        "error_code": Code.NONE, "error_message": None,
    }  # fmt: skip
    if call.body.key_type != GROUP_KEY_TYPE:
        node = {
            "node_id": -1, "host": "", "port": -1,
            "error_code": Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "error_message": NO_TRANSACTIONS,
        }  # fmt: skip
    kind = FindCoordinatorResponse.Coordinator
    coordinators = [kind(key=key, **node) for key in call.body.coordinator_keys]
    return FindCoordinatorResponse(coordinators=coordinators, **node)


async def init_producer_id(cluster: Cluster, call: Call) -> Any:
    code, producer_id, epoch = Code.NONE, next(cluster.producer_ids), 0
    if call.body.transactional_id is not None:
        code, producer_id, epoch = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1, -1
    return InitProducerIdResponse(error_code=code, producer_id=producer_id, producer_epoch=epoch)


async def sasl_handshake(cluster: Cluster, call: Call) -> Any:
    """There is no login, as on a listener of Kafka without one."""
    return SaslHandshakeResponse(error_code=Code.ILLEGAL_SASL_STATE, mechanisms=[])


def _metadata_by_name(cluster: Cluster, item: Any, may_create: bool) -> Any:
    try:
        if item.name is None:
            raise RequestError(Code.UNKNOWN_TOPIC_OR_PARTITION, "topics are known by name alone")
        if item.name not in cluster.topics and may_create and cluster.settings.auto_create:
            cluster.topics.create(item.name)
        return _metadata(cluster.topics[item.name])
    except RequestError as error:
        return MetadataTopic(error_code=error.code, name=item.name or "", partitions=[])


def _metadata(topic: Topic) -> Any:
    partitions = [
        MetadataTopic.MetadataResponsePartition(
            error_code=Code.NONE, partition_index=index, leader_id=NODE_ID, leader_epoch=0,
            replica_nodes=[NODE_ID], isr_nodes=[NODE_ID], offline_replicas=[],
        )
        for index in range(len(topic.logs))
    ]  # fmt: skip
    return MetadataTopic(
        error_code=Code.NONE, name=topic.name, topic_id=topic.id, partitions=partitions
    )


async def create_topics(cluster: Cluster, call: Call) -> Any:
    """`validate_only` checks whether they could be created, and creates none."""
    topics = []
    for item in call.body.topics:
        try:
            _check_replicas(item.replication_factor, item.assignments)
            overrides = {config.name: config.value for config in item.configs}
            only_check = call.body.validate_only
            topic = cluster.topics.create(item.name, item.num_partitions, overrides, only_check)
            result = CreatedTopic(
                name=topic.name, topic_id=topic.id, error_code=Code.NONE, error_message=None,
                num_partitions=len(topic.logs), replication_factor=1,
                configs=_settings(CreatedTopic.CreatableTopicConfigs, topic.config, SETTINGS),
            )  # fmt: skip
        except RequestError as error:
            code, message = error.code, error.message
            result = CreatedTopic(name=item.name, error_code=code, error_message=message)
        topics.append(result)
    return CreateTopicsResponse(topics=topics)


async def delete_topics(cluster: Cluster, call: Call) -> Any:
    """The committed offsets of the topics are deleted, too."""
    kind = DeleteTopicsResponse.DeletableTopicResult
    responses = []
    for name in call.body.topic_names:
        code, message = run_for_error(cluster.topics.delete, name)
        if not code:
            cluster.groups.forget_topic(name)
        responses.append(kind(name=name, error_code=code, error_message=message))
    return DeleteTopicsResponse(responses=responses)


async def create_partitions(cluster: Cluster, call: Call) -> Any:
    kind = CreatePartitionsResponse.CreatePartitionsTopicResult

    def grow(item: Any) -> None:
        _check_replicas(1, item.assignments)
        cluster.topics.grow(item.name, item.count, call.body.validate_only)

    results = []
    for item in call.body.topics:
        code, message = run_for_error(grow, item)
        results.append(kind(name=item.name, error_code=code, error_message=message))
    return CreatePartitionsResponse(results=results)


async def describe_configs(cluster: Cluster, call: Call) -> Any:
    results = []
    for item in call.body.resources:
        try:
            configs, result = _describe(cluster, item), _config_result(item, Code.NONE, None)
        except RequestError as error:
            configs, result = [], _config_result(item, error.code, error.message)
        results.append(DescribedResource(configs=configs, **result))
    return DescribeConfigsResponse(results=results)


async def alter_configs(cluster: Cluster, call: Call) -> Any:
    kind = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    responses = []
    for item in call.body.resources:
        code, message = run_for_error(_alter, cluster, item, call.body.validate_only)
        responses.append(kind(**_config_result(item, code, message)))
    return IncrementalAlterConfigsResponse(responses=responses)


def _config_result(item: Any, code: Code, message: str | None) -> dict[str, Any]:
    return {
        "error_code": code, "error_message": message, "resource_type": item.resource_type,
        "resource_name": item.resource_name,
    }  # fmt: skip


def _check_replicas(copies: int, assignments: Iterable[Any] | None) -> None:
    if assignments:
        message = "there is one node, which gets every partition; give their number instead"
        raise RequestError(Code.INVALID_REPLICA_ASSIGNMENT, message)
    if copies not in (-1, 1):
        message = f"Replication factor {copies} on 1 broker; use 1 or -1"
        raise RequestError(Code.INVALID_REPLICATION_FACTOR, message)


def _settings(kind: Any, config: TopicConfig, names: Iterable[str], **more: Any) -> list[Any]:
    return [
        kind(
            name=name, value=config.text(name), read_only=False, is_sensitive=False,
            config_source=SET_BY_TOPIC if name in config.overrides else SET_BY_DEFAULT, **more,
        )
        for name in names
    ]  # fmt: skip


def _require_topic(cluster: Cluster, item: Any) -> Topic:
    if item.resource_type != TOPIC_RESOURCE:
        raise RequestError(Code.INVALID_REQUEST, "only topics have settings that can be asked for")
    return cluster.topics[item.resource_name]


def _describe(cluster: Cluster, item: Any) -> list[Any]:
    config, keys = _require_topic(cluster, item).config, item.configuration_keys
    names = [name for name in SETTINGS if keys is None or name in keys]
    return _settings(DescribedResource.DescribeConfigsResourceResult, config, names, synonyms=[])


def _alter(cluster: Cluster, item: Any, only_check: bool) -> None:
    topic = _require_topic(cluster, item)
    values: dict[str, str | None] = dict(topic.config.overrides)
    for change in item.configs:
        if change.config_operation == SET_OPERATION:
            values[change.name] = change.value
        elif change.config_operation == DELETE_OPERATION:
            values.pop(change.name, None)
        else:
            message = f"{change.name}: operation {change.config_operation} is not possible; set it"
            raise RequestError(Code.INVALID_CONFIG, message)
    config = TopicConfig(values)
    if not only_check:
        topic.config = config
