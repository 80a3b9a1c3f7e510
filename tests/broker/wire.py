"""Kafka's protocol by hand: one connection, one request at a time."""

import socket
import time
from types import TracebackType
from typing import Any, Self

from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)  # fmt: skip
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest
from kafka.record import MemoryRecordsBuilder

NO_ERROR = 0
UNKNOWN_MEMBER = 25
ILLEGAL_GENERATION = 22
REBALANCE = 27
MEMBER_ID_REQUIRED = 79
NOT_YET = {14, 15, 16}  # the coordinator is loading, or not known yet


class Wire:
    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._protocol = KafkaProtocol(client_id="wire")
        self._highest: dict[int, int] = {}
        for api in self.ask(ApiVersionsRequest(version=0)).api_keys:
            self._highest[api.api_key] = api.max_version

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, request: Any) -> None:
        if request.API_VERSION is None:
            wanted = request._max_version or type(request).max_version
            request.API_VERSION = min(wanted, self._highest[request.API_KEY])
        self._protocol.send_request(request)
        self._socket.sendall(self._protocol.send_bytes())

    def receive(self) -> Any:
        while True:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError("the broker closed the connection")
            for _correlation, response in self._protocol.receive_bytes(data):
                return response

    def ask(self, request: Any) -> Any:
        self.send(request)
        return self.receive()


class Member:
    rebalance_ms = 30_000

    def __init__(self, address: str, group: str, *, session_ms: int = 10_000) -> None:
        self.wire = Wire(address)
        self.group = group
        self.id = ""
        self.generation = -1
        self.leader = False
        self.members: list[str] = []
        self._session_ms = session_ms

    def ask_to_join(self) -> None:
        """Send the request alone: the answer comes when every member has asked."""
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
        self.wire.send(
            JoinGroupRequest(
                group_id=self.group, session_timeout_ms=self._session_ms,
                rebalance_timeout_ms=self.rebalance_ms, member_id=self.id, group_instance_id=None,
                protocol_type="consumer", protocols=[protocol], reason=None, max_version=8,
            )
        )  # fmt: skip

    def joined(self) -> int:
        answer = self.wire.receive()
        if answer.error_code in {NO_ERROR, MEMBER_ID_REQUIRED}:
            self.id = answer.member_id
        if answer.error_code == NO_ERROR:
            self.generation = answer.generation_id
            self.leader = answer.leader == self.id
            self.members = [member.member_id for member in answer.members]
        return int(answer.error_code)

    def join(self) -> int:
        while True:
            self.ask_to_join()
            code = self.joined()
            if code == MEMBER_ID_REQUIRED:
                continue
            if code not in NOT_YET:
                return code
            self.wire.ask(FindCoordinatorRequest(key=self.group, key_type=0, max_version=3))
            time.sleep(0.05)

    def sync(self, shares: dict[str, bytes] | None = None) -> tuple[int, bytes]:
        share = SyncGroupRequest.SyncGroupRequestAssignment
        answer = self.wire.ask(
            SyncGroupRequest(
                group_id=self.group, generation_id=self.generation, member_id=self.id,
                group_instance_id=None, protocol_type="consumer", protocol_name="range",
                assignments=[
                    share(member_id=member, assignment=given)
                    for member, given in (shares or {}).items()
                ],
            )
        )  # fmt: skip
        return int(answer.error_code), bytes(answer.assignment or b"")

    def heartbeat(self) -> int:
        request = HeartbeatRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.id,
            group_instance_id=None,
        )  # fmt: skip
        return int(self.wire.ask(request).error_code)

    def commit(self, topic: str, partition: int, offset: int) -> int:
        part = OffsetCommitRequest.OffsetCommitRequestTopic
        row = part.OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_leader_epoch=-1,
            committed_metadata="",
        )  # fmt: skip
        answer = self.wire.ask(
            OffsetCommitRequest(
                group_id=self.group, generation_id_or_member_epoch=self.generation,
                member_id=self.id, group_instance_id=None, retention_time_ms=-1,
                topics=[part(name=topic, partitions=[row])], max_version=8,
            )
        )  # fmt: skip
        return int(answer.topics[0].partitions[0].error_code)

    def leave(self) -> None:
        identity = LeaveGroupRequest.MemberIdentity(
            member_id=self.id, group_instance_id=None, reason=None
        )
        self.wire.ask(LeaveGroupRequest(group_id=self.group, member_id=self.id, members=[identity]))
        self.wire.close()


class Idempotent:
    """A producer with an id, whose batches can be sent again or out of turn."""

    def __init__(self, address: str, topic: str) -> None:
        self.wire = Wire(address)
        self.topic = topic
        while True:
            answer = self.wire.ask(
                InitProducerIdRequest(
                    transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1,
                    producer_epoch=-1, max_version=4,
                )
            )  # fmt: skip
            if answer.error_code not in NOT_YET:
                break
            time.sleep(0.05)
        assert answer.error_code == NO_ERROR
        self.id, self.epoch = answer.producer_id, answer.producer_epoch

    def send(self, sequence: int, values: list[bytes], *, epoch: int | None = None) -> Any:
        return self.produce(self.batch(sequence, values, epoch=epoch))

    def batch(self, sequence: int, values: list[bytes], *, epoch: int | None = None) -> bytes:
        batch = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=2**20)
        for value in values:
            batch.append(timestamp=int(time.time() * 1000), key=None, value=value, headers=[])
        batch.set_producer_state(self.id, self.epoch if epoch is None else epoch, sequence, False)
        batch.close()
        return bytes(batch.buffer())

    def produce(self, records: bytes) -> Any:
        part = ProduceRequest.TopicProduceData
        row = part.PartitionProduceData(index=0, records=records)
        answer = self.wire.ask(
            ProduceRequest(
                transactional_id=None, acks=-1, timeout_ms=10_000, max_version=8,
                topic_data=[part(name=self.topic, partition_data=[row])],
            )
        )  # fmt: skip
        return answer.responses[0].partition_responses[0]
