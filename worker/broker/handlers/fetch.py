"""Fetch: batches out, at once or when enough has come."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.consumer import FetchResponse

from worker.broker.codes import Code, Refused
from worker.broker.log import Log
from worker.broker.settings import Cluster
from worker.broker.wire import Call

LOOK_UP_EVERY_S = 1  # to see whether the client is still there
RESPONSE = FetchResponse.FetchableTopicResponse
PARTITION = RESPONSE.PartitionData


@dataclass(slots=True)
class Found:
    """What one look at the logs gave."""

    room: int
    topics: list[Any] = field(default_factory=list)
    size: int = 0
    has_error: bool = False


async def fetch_records(cluster: Cluster, call: Call) -> Any:
    """Answer with batches; wait for them as long as the consumer is willing to.

    Sessions are not kept: every answer is a full one, which tells the client to ask in full.
    """
    body = call.body
    if body.session_id != 0 and body.session_epoch > 0:
        return FetchResponse(
            version=call.version, error_code=Code.FETCH_SESSION_ID_NOT_FOUND, responses=[]
        )
    loop = asyncio.get_running_loop()
    deadline = loop.time() + body.max_wait_ms / 1000
    changed = asyncio.Event()
    with _watching(cluster, body, changed):
        while True:
            changed.clear()
            found = _look(cluster, body)
            left = deadline - loop.time()
            enough = found.has_error or found.size >= body.min_bytes
            if enough or left <= 0 or call.client.has_hung_up():
                return FetchResponse(version=call.version, responses=found.topics)
            try:
                async with asyncio.timeout(min(left, LOOK_UP_EVERY_S)):
                    await changed.wait()
            except TimeoutError:
                continue


@contextmanager
def _watching(cluster: Cluster, body: Any, changed: asyncio.Event) -> Iterator[None]:
    logs = []
    for topic in body.topics:
        for part in topic.partitions:
            try:
                logs.append(cluster.topics[topic.topic].log(part.partition))
            except Refused:
                continue  # the look at it will say so
    for log in logs:
        log.watchers.add(changed.set)
    try:
        yield
    finally:
        for log in logs:
            log.watchers.discard(changed.set)


def _look(cluster: Cluster, body: Any) -> Found:
    found = Found(min(body.max_bytes, cluster.settings.max_response_bytes))
    for topic in body.topics:
        partitions = [
            _partition(cluster, body, found, topic.topic, part) for part in topic.partitions
        ]
        found.topics.append(RESPONSE(topic=topic.topic, partitions=partitions))
    return found


def _partition(cluster: Cluster, body: Any, found: Found, name: str, part: Any) -> Any:
    log: Log | None = None
    try:
        log = cluster.topics[name].log(part.partition)
        check_epoch(part.current_leader_epoch)
        most = min(part.partition_max_bytes, found.room - found.size)
        batches = log.read(part.fetch_offset, most, at_least_one=found.size == 0)
    except Refused as refused:
        found.has_error = True
        end, start = (log.end, log.start) if log else (-1, -1)
        return PARTITION(
            partition_index=part.partition, error_code=refused.code, high_watermark=end,
            last_stable_offset=end, log_start_offset=start, aborted_transactions=None, records=b"",
        )  # fmt: skip
    records = b"".join(batches)
    found.size += len(records)
    return PARTITION(
        partition_index=part.partition, error_code=Code.NONE, high_watermark=log.end,
        last_stable_offset=log.end, log_start_offset=log.start,
        aborted_transactions=[] if body.isolation_level else None, records=records,
    )  # fmt: skip


def check_epoch(epoch: int) -> None:
    """Refuse a leader epoch other than the only one there ever is, 0; -1 is none."""
    if epoch > 0:
        raise Refused(Code.UNKNOWN_LEADER_EPOCH, f"leader epoch {epoch} is yet to come")
