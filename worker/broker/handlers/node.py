"""Who this broker is: versions, metadata, coordinators, and the login it does not have."""

from typing import Any

from kafka.protocol.admin import DescribeClusterResponse
from kafka.protocol.metadata import (
    ApiVersionsResponse,
    FindCoordinatorResponse,
    MetadataResponse,
)
from kafka.protocol.sasl import SaslHandshakeResponse

from worker.broker.codes import NO_TRANSACTIONS, Code, Refused
from worker.broker.settings import NODE, Cluster
from worker.broker.topics import Topic
from worker.broker.wire import Call

GROUP_KEY = 0


async def api_versions(cluster: Cluster, call: Call) -> Any:
    """Which requests are served, in which versions; also to a client that is too new."""
    kind = ApiVersionsResponse.ApiVersion
    return ApiVersionsResponse(
        version=call.version,
        error_code=Code.UNSUPPORTED_VERSION if call.is_unsupported else Code.NONE,
        api_keys=[
            kind(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted(cluster.served.items())
        ],
    )


async def metadata(cluster: Cluster, call: Call) -> Any:
    """The one node, and the topics asked for; missing ones are made where that is wished."""
    asked = call.body.topics
    if asked is None or (call.version == 0 and not asked):
        topics = [_topic(topic) for topic in cluster.topics]
    else:
        may_create = call.version < 4 or call.body.allow_auto_topic_creation
        topics = [_named_topic(cluster, each, may_create) for each in asked]
    return MetadataResponse(
        version=call.version,
        brokers=[
            MetadataResponse.MetadataResponseBroker(NODE, call.client.host, call.client.port, None)
        ],
        cluster_id=cluster.id,
        controller_id=NODE,
        topics=topics,
    )


async def find_coordinator(cluster: Cluster, call: Call) -> Any:
    """This node coordinates every group, and no transaction."""
    code, why = Code.NONE, None
    if call.body.key_type != GROUP_KEY:
        code, why = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_TRANSACTIONS
    node, host, port = (-1, "", -1) if code else (NODE, call.client.host, call.client.port)
    kind = FindCoordinatorResponse.Coordinator
    return FindCoordinatorResponse(
        version=call.version, error_code=code, error_message=why, node_id=node, host=host,
        port=port,
        coordinators=[
            kind(key=key, node_id=node, host=host, port=port, error_code=code, error_message=why)
            for key in call.body.coordinator_keys
        ],
    )  # fmt: skip


async def describe_cluster(cluster: Cluster, call: Call) -> Any:
    """The cluster: one broker, which is its own controller."""
    broker = DescribeClusterResponse.DescribeClusterBroker
    return DescribeClusterResponse(
        version=call.version,
        cluster_id=cluster.id,
        controller_id=NODE,
        brokers=[broker(broker_id=NODE, host=call.client.host, port=call.client.port, rack=None)],
    )


async def sasl_handshake(cluster: Cluster, call: Call) -> Any:
    """There is no login here, as on a listener of Kafka without one."""
    return SaslHandshakeResponse(
        version=call.version, error_code=Code.ILLEGAL_SASL_STATE, mechanisms=[]
    )


def _named_topic(cluster: Cluster, asked: Any, may_create: bool) -> Any:
    try:
        if asked.name is None:
            raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, "topics are known by name alone")
        if asked.name not in cluster.topics and may_create and cluster.settings.auto_create:
            cluster.topics.create(asked.name)
        return _topic(cluster.topics[asked.name])
    except Refused as refused:
        kind = MetadataResponse.MetadataResponseTopic
        return kind(error_code=refused.code, name=asked.name or "", partitions=[])


def _topic(topic: Topic) -> Any:
    kind = MetadataResponse.MetadataResponseTopic
    partition = kind.MetadataResponsePartition
    return kind(
        error_code=Code.NONE,
        name=topic.name,
        topic_id=topic.id,
        partitions=[
            partition(
                error_code=Code.NONE, partition_index=index, leader_id=NODE, leader_epoch=0,
                replica_nodes=[NODE], isr_nodes=[NODE], offline_replicas=[],
            )
            for index in range(len(topic.logs))
        ],
    )  # fmt: skip
