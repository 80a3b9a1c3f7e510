"""Kafka's protocol by hand: one connection, one request at a time."""

import socket
import time
from contextlib import closing
from typing import Any

from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest
from kafka.record import MemoryRecordsBuilder

from newsift.broker.batches import HEADER, Header
from newsift.broker.server import Address
from tests.broker.server import Server

NO_ERROR = 0
NOT_YET = {14, 15, 16}  # the coordinator is loading, or not known yet


class Wire:
    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._protocol = KafkaProtocol(client_id="wire")
        self._highest: dict[int, int] = {}
        for api in self.ask(ApiVersionsRequest(version=0)).api_keys:
            self._highest[api.api_key] = api.max_version

    def close(self) -> None:
        self._socket.close()

    def send(self, request: Any) -> None:
        if request.API_VERSION is None:
            expected = request._max_version or type(request).max_version
            request.API_VERSION = min(expected, self._highest[request.API_KEY])
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

    def ask_again(self, request: Any) -> Any:
        """Ask until the coordinator is there."""
        while (answer := self.ask(request)).error_code in NOT_YET:
            time.sleep(0.05)
        return answer

    def produce(self, topic: str, records: bytes) -> Any:
        """Write bytes as they are to the first partition of a topic."""
        request = produce_request(topic, records, timeout_ms=10_000, max_version=8)
        return self.ask(request).responses[0].partition_responses[0]


def produce_request(topic: str, records: bytes, index: int = 0, **more: Any) -> ProduceRequest:
    part = ProduceRequest.TopicProduceData
    row = part.PartitionProduceData(index=index, records=records)
    fields = {"transactional_id": None, "acks": -1} | more
    return ProduceRequest(topic_data=[part(name=topic, partition_data=[row])], **fields)


def fetch_request(topic: str, offset: int, **more: Any) -> FetchRequest:
    """Of the first partition of a topic."""
    kind = FetchRequest.FetchTopic
    part = kind.FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=2**20,
        current_leader_epoch=-1, last_fetched_epoch=-1, log_start_offset=-1,
    )  # fmt: skip
    fields = {
        "max_wait_ms": 100, "min_bytes": 1, "max_bytes": 2**20, "isolation_level": 0,
        "session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": "",
    }  # fmt: skip
    return FetchRequest(topics=[kind(topic=topic, partitions=[part])], **fields | more)


class Idempotent:
    """A producer with an id, whose batches can be sent again or out of turn."""

    def __init__(self, address: str, topic: str) -> None:
        self.wire = Wire(address)
        self.topic = topic
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1,
            producer_epoch=-1, max_version=4,
        )  # fmt: skip
        answer = self.wire.ask_again(request)
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
        return self.wire.produce(self.topic, records)


def plant(server: Server, topic: str, data: bytes) -> None:
    """Write a batch; to the log of the embedded broker itself, which would refuse a hostile one."""
    if not isinstance(server, Address):
        with closing(Wire(server.address)) as wire:
            assert wire.produce(topic, data).error_code == 0
        return

    async def append() -> None:
        log = server.broker.cluster.topics[topic].log(0)
        log.append(data, Header(*HEADER.unpack_from(data)))

    server.call(append())
