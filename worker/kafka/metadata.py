"""What the stream's clients ask a broker of its topics: which topic it is, without making one."""

from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from typing import Any
from uuid import UUID

import aiokafka.client
import kafka.protocol.metadata as kafka_python
from aiokafka.errors import UnknownTopicOrPartitionError, for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.types import Schema

# aiokafka allows the broker to make each topic that it asks about, and has no option against it.
# Every consumer and producer of its kind asks by this name.
aiokafka.client.MetadataRequest = partial(MetadataRequest, allow_auto_topic_creation=False)


@dataclass(frozen=True, slots=True)
class Identity:
    """Which topic of a name it is: made again, it has another id, where the broker gives ids."""

    id: UUID | None
    partitions: int
    cluster_id: str = field(default="", compare=False)


async def identity(client: Any, topic: str) -> Identity | None:
    """Which topic now has this name; None if there is none."""
    answer = await client.send(client.get_random_node(), _TopicRequest(topic))
    [found] = answer.topics
    kind = for_code(found.error_code)
    if kind is UnknownTopicOrPartitionError:
        return None
    if found.error_code:
        raise kind(topic)
    return Identity(found.topic_id, len(found.partitions), answer.cluster_id or "")


# aiokafka speaks version 5 at most; topics have ids from version 10 on, which kafka-python speaks.
# A broker before 2.8 knows topics by name alone, and is asked in version 4.


class _Answer4(Response):  # type: ignore[misc]
    API_KEY, API_VERSION, SCHEMA = 3, 4, Schema()

    @classmethod
    def decode(cls, data: BytesIO) -> Any:
        """The answer as kafka-python reads it."""
        return kafka_python.MetadataResponse.decode(data, version=cls.API_VERSION)


class _Answer10(_Answer4):
    API_VERSION = 10


class _Question4(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION, SCHEMA, RESPONSE_TYPE = 3, 4, Schema(), _Answer4

    def __init__(self, topic: str) -> None:
        super().__init__()
        self._topic = topic

    def encode(self) -> bytes:
        """The question as kafka-python writes it."""
        version, asked = self.API_VERSION, kafka_python.MetadataRequest
        topic = asked.MetadataRequestTopic(version=version, name=self._topic)
        question = asked(version=version, topics=[topic], allow_auto_topic_creation=False)
        return bytes(question.encode(version=version))


class _Question10(_Question4):
    API_VERSION, RESPONSE_TYPE, FLEXIBLE_VERSION = 10, _Answer10, True


class _TopicRequest(Request[_Question4 | _Question10]):  # type: ignore[misc]
    API_KEY = 3

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def build(self, request_struct_class: type[_Question4]) -> _Question4:
        """A question about one topic by its name."""
        return request_struct_class(self._topic)
