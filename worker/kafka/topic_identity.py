"""The identity of a topic, by which one that was made again is noticed."""

from dataclasses import dataclass, field
from io import BytesIO
from typing import Any
from uuid import UUID

import kafka.protocol.metadata as kafka_python
from aiokafka.errors import UnknownTopicOrPartitionError, for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Schema


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """A topic that is created again has another id, if the broker supports ids."""

    id: UUID | None
    partitions: int
    cluster_id: str = field(default="", compare=False)


async def read_identity(client: Any, topic: str) -> TopicIdentity | None:
    """None if the topic does not exist."""
    answer = await client.send(client.get_random_node(), _TopicRequest(topic))
    [topic_answer] = answer.topics
    kind = for_code(topic_answer.error_code)
    if kind is UnknownTopicOrPartitionError:
        return None
    if topic_answer.error_code:
        raise kind(topic)
    return TopicIdentity(
        topic_answer.topic_id, len(topic_answer.partitions), answer.cluster_id or ""
    )


# aiokafka speaks version 5 at most; topics have ids from version 10 on, which kafka-python speaks.
# A broker before 2.8 knows topics by name alone, and is asked in version 4. aiokafka takes the
# newest of the two that the broker speaks.


class _Response4(Response):  # type: ignore[misc]
    API_KEY, API_VERSION, SCHEMA = 3, 4, Schema()

    @classmethod
    def decode(cls, data: BytesIO) -> Any:
        """Decodes the response for kafka-python."""
        return kafka_python.MetadataResponse.decode(data, version=cls.API_VERSION)


class _Response10(_Response4):
    API_VERSION = 10


class _Request4(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION, SCHEMA, RESPONSE_TYPE = 3, 4, Schema(), _Response4

    def __init__(self, topic: str) -> None:
        super().__init__()
        self._topic = topic

    def encode(self) -> bytes:
        """Encodes the request for kafka-python."""
        version, kind = self.API_VERSION, kafka_python.MetadataRequest
        topic = kind.MetadataRequestTopic(version=version, name=self._topic)
        request = kind(version=version, topics=[topic], allow_auto_topic_creation=False)
        return bytes(request.encode(version=version))


class _Request10(_Request4):
    API_VERSION, RESPONSE_TYPE, FLEXIBLE_VERSION = 10, _Response10, True


class _TopicRequest(Request[_Request4 | _Request10]):  # type: ignore[misc]
    API_KEY = 3

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def build(self, request_struct_class: type[_Request4]) -> _Request4:
        return request_struct_class(self._topic)
