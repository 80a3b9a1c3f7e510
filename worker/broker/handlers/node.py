"""Who this broker is: metadata, coordinators, ids of producers, and the login it does not have."""

from typing import Any

from kafka.protocol.admin import DescribeClusterResponse
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer import InitProducerIdResponse
from kafka.protocol.sasl import SaslHandshakeResponse

from worker.broker.codes import NO_TRANSACTIONS, Code, Refused
from worker.broker.settings import NODE, Cluster
from worker.broker.topics import Topic
from worker.broker.wire import Call

GROUP_KEY = 0
TOPIC = MetadataResponse.MetadataResponseTopic


async def cluster_metadata(cluster: Cluster, call: Call) -> Any:
    """The one node, and the topics asked for; missing ones are made where that is wished."""
    asked = call.body.topics
    if asked is None or (call.version == 0 and not asked):
        topics = [_topic(topic) for topic in cluster.topics.values()]
    else:
        may_create = call.version < 4 or call.body.allow_auto_topic_creation
        topics = [_named_topic(cluster, each, may_create) for each in asked]
    node = MetadataResponse.MetadataResponseBroker(NODE, call.client.host, call.client.port, None)
    return MetadataResponse(
        version=call.version, brokers=[node], cluster_id=cluster.id, controller_id=NODE,
        topics=topics,
    )  # fmt: skip


async def find_coordinator(cluster: Cluster, call: Call) -> Any:
    """This node coordinates every group, and no transaction."""
    said = {
        "node_id": NODE, "host": call.client.host, "port": call.client.port,
        "error_code": Code.NONE, "error_message": None,
    }  # fmt: skip
    if call.body.key_type != GROUP_KEY:
        code = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        said = {
            "node_id": -1, "host": "", "port": -1, "error_code": code,
            "error_message": NO_TRANSACTIONS,
        }  # fmt: skip
    kind = FindCoordinatorResponse.Coordinator
    found = [kind(key=key, **said) for key in call.body.coordinator_keys]
    return FindCoordinatorResponse(version=call.version, coordinators=found, **said)


async def describe_cluster(cluster: Cluster, call: Call) -> Any:
    """The cluster: one broker, which is its own controller."""
    kind = DescribeClusterResponse.DescribeClusterBroker
    node = kind(broker_id=NODE, host=call.client.host, port=call.client.port, rack=None)
    return DescribeClusterResponse(
        version=call.version, cluster_id=cluster.id, controller_id=NODE, brokers=[node]
    )


async def init_producer_id(cluster: Cluster, call: Call) -> Any:
    """A new id for an idempotent producer."""
    code, producer_id, epoch = Code.NONE, next(cluster.producer_ids), 0
    if call.body.transactional_id is not None:
        code, producer_id, epoch = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1, -1
    return InitProducerIdResponse(
        version=call.version, error_code=code, producer_id=producer_id, producer_epoch=epoch
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
        return TOPIC(error_code=refused.code, name=asked.name or "", partitions=[])


def _topic(topic: Topic) -> Any:
    partitions = [
        TOPIC.MetadataResponsePartition(
            error_code=Code.NONE, partition_index=index, leader_id=NODE, leader_epoch=0,
            replica_nodes=[NODE], isr_nodes=[NODE], offline_replicas=[],
        )
        for index in range(len(topic.logs))
    ]  # fmt: skip
    return TOPIC(error_code=Code.NONE, name=topic.name, topic_id=topic.id, partitions=partitions)
