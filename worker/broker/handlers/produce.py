"""Produce: batches in; and the ids of idempotent producers."""

import asyncio
from typing import Any

from kafka.protocol.producer import InitProducerIdResponse, ProduceResponse

from worker.broker.batch import is_light
from worker.broker.codes import Code, Refused, refuse_transactions
from worker.broker.settings import Cluster
from worker.broker.topics import Topic
from worker.broker.wire import Call
from worker.kafka.batches.header import Header

ALL = -1
RESULT = ProduceResponse.TopicProduceResponse
PARTITION = RESULT.PartitionProduceResponse


async def produce(cluster: Cluster, call: Call) -> Any:
    """Store one batch a partition; with acks=0 no answer is sent."""
    responses = [
        RESULT(
            name=topic.name,
            partition_responses=[
                await _stored(cluster, call, topic.name, part) for part in topic.partition_data
            ],
        )
        for topic in call.body.topic_data
    ]
    if call.body.acks == 0:
        if any(part.error_code for each in responses for part in each.partition_responses):
            raise ConnectionAbortedError  # as Kafka does: it is all that this producer can notice
        return None
    return ProduceResponse(version=call.version, responses=responses)


async def init_producer_id(cluster: Cluster, call: Call) -> Any:
    """A new id for an idempotent producer."""
    code, producer_id, epoch = Code.NONE, next(cluster.producer_ids), 0
    if call.body.transactional_id is not None:
        code, producer_id, epoch = refuse_transactions().code, -1, -1
    return InitProducerIdResponse(
        version=call.version, error_code=code, producer_id=producer_id, producer_epoch=epoch
    )


async def _stored(cluster: Cluster, call: Call, name: str, part: Any) -> Any:
    try:
        if call.body.transactional_id is not None:
            raise refuse_transactions()
        if call.body.acks not in (ALL, 0, 1):
            raise Refused(Code.INVALID_REQUIRED_ACKS, f"acks {call.body.acks} is not -1, 0 or 1")
        topic = cluster.topics[name]
        log = topic.log(part.index)
        if call.body.acks == ALL and (wanted := topic.config["min.insync.replicas"]) > 1:
            raise Refused(Code.NOT_ENOUGH_REPLICAS, f"{name} wants {wanted} replicas")
        data = bytes(part.records or b"")
        header = await _checked(cluster, topic, data)
        offset, time = cluster.topics.append(topic, log, data, header)
    except Refused as refused:
        return PARTITION(
            index=part.index, error_code=refused.code, base_offset=-1, log_append_time_ms=-1,
            log_start_offset=-1, error_message=refused.why,
        )  # fmt: skip
    return PARTITION(
        index=part.index, error_code=Code.NONE, base_offset=offset, log_append_time_ms=time,
        log_start_offset=log.start,
    )  # fmt: skip


async def _checked(cluster: Cluster, topic: Topic, data: bytes) -> Header:
    """The header of a batch that may be stored; where the check takes long, others are served."""
    if is_light(data):
        return cluster.topics.checked(topic, data)
    async with cluster.checking:  # one at a time, as each may unpack to a lot
        return await asyncio.to_thread(cluster.topics.checked, topic, data)
