"""Handlers of requests: one table by API key, with the versions that are served.

The lower bounds are those of Kafka 4. The upper ones leave out what a single node in memory does
not need: topic ids in Produce, Fetch and OffsetCommit, the newest record by time, and the newer
group protocol.
"""

from typing import Any

from kafka.protocol import admin, consumer, metadata, producer, sasl

from newsift.broker.codes import Code
from newsift.broker.handlers import groups, records, topics
from newsift.broker.settings import Cluster
from newsift.broker.wire import API_VERSIONS_KEY, Api, Call


async def api_versions(cluster: Cluster, call: Call) -> Any:
    """Also answers clients that are too new."""
    kind = metadata.ApiVersionsResponse.ApiVersion
    return metadata.ApiVersionsResponse(
        error_code=Code.UNSUPPORTED_VERSION if call.is_unsupported else Code.NONE,
        api_keys=[
            kind(api_key=key, min_version=api.low, max_version=api.high)
            for key, api in sorted(API_HANDLERS.items())
        ],
    )


API_HANDLERS: dict[int, Api] = {
    0: Api(producer.ProduceRequest, 3, 12, records.produce),
    1: Api(consumer.FetchRequest, 4, 12, records.fetch_records),
    2: Api(consumer.ListOffsetsRequest, 1, 6, records.list_offsets),
    3: Api(metadata.MetadataRequest, 0, 12, topics.cluster_metadata),
    8: Api(consumer.OffsetCommitRequest, 2, 9, groups.commit_offsets),
    9: Api(consumer.OffsetFetchRequest, 1, 9, groups.fetch_offsets),
    10: Api(metadata.FindCoordinatorRequest, 0, 6, topics.find_coordinator),
    11: Api(consumer.JoinGroupRequest, 2, 9, groups.join_group),
    12: Api(consumer.HeartbeatRequest, 0, 4, groups.heartbeat),
    13: Api(consumer.LeaveGroupRequest, 0, 5, groups.leave_group),
    14: Api(consumer.SyncGroupRequest, 0, 5, groups.sync_group),
    15: Api(admin.DescribeGroupsRequest, 0, 6, groups.describe_groups),
    16: Api(admin.ListGroupsRequest, 0, 5, groups.list_groups),
    17: Api(sasl.SaslHandshakeRequest, 0, 1, topics.sasl_handshake),
    API_VERSIONS_KEY: Api(metadata.ApiVersionsRequest, 0, 4, api_versions),
    19: Api(admin.CreateTopicsRequest, 2, 7, topics.create_topics),
    20: Api(admin.DeleteTopicsRequest, 1, 5, topics.delete_topics),
    21: Api(admin.DeleteRecordsRequest, 0, 2, records.delete_records),
    22: Api(producer.InitProducerIdRequest, 0, 5, topics.init_producer_id),
    32: Api(admin.DescribeConfigsRequest, 1, 4, topics.describe_configs),
    37: Api(admin.CreatePartitionsRequest, 0, 3, topics.create_partitions),
    42: Api(admin.DeleteGroupsRequest, 0, 2, groups.delete_groups),
    44: Api(admin.IncrementalAlterConfigsRequest, 0, 1, topics.alter_configs),
}
