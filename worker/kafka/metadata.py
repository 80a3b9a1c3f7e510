"""What the stream's clients ask a broker of its topics: which topic it is, without making one."""

from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Any

import aiokafka.client
from aiokafka.errors import UnknownTopicOrPartitionError, for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

# aiokafka allows the broker to make each topic that it asks about, and has no option against it.
# Every consumer and producer of its kind asks by this name.
aiokafka.client.MetadataRequest = partial(MetadataRequest, allow_auto_topic_creation=False)

NO_ID = bytes(16)


@dataclass(frozen=True, slots=True)
class Identity:
    """Which topic of a name it is: made again, it has another id, where the broker gives ids."""

    id: bytes
    partitions: int


async def identity(client: Any, topic: str) -> Identity | None:
    """Which topic now has this name; None if there is none."""
    try:
        said = await client.send(client.get_random_node(), _TopicRequest(topic))
    except NotImplementedError:  # a broker before 2.8 knows topics by name alone
        said = await client.send(client.get_random_node(), MetadataRequest([topic], False))
        error, _, _, partitions = said.topics[0]
        return _checked(error, topic, Identity(NO_ID, len(partitions)))
    error, _, number, _, partitions, *_ = said.topics[0]
    return _checked(error, topic, Identity(number, len(partitions)))


def _checked(error: int, topic: str, found: Identity) -> Identity | None:
    kind = for_code(error)
    if kind is UnknownTopicOrPartitionError:
        return None
    if error:
        raise kind(topic)
    return found


class _Uuid:
    """Sixteen bytes."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        """The bytes as they are."""
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        """The next sixteen bytes."""
        return data.read(16)


_text, _numbers = CompactString("utf-8"), CompactArray(Int32)


class _TopicResponse(Response):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", CompactArray(("node_id", Int32), ("host", _text), ("port", Int32),
                                 ("rack", _text), ("tags", TaggedFields))),
        ("cluster_id", _text),
        ("controller_id", Int32),
        ("topics", CompactArray(
            ("error_code", Int16), ("name", _text), ("topic_id", _Uuid), ("is_internal", Boolean),
            ("partitions", CompactArray(
                ("error_code", Int16), ("partition", Int32), ("leader", Int32),
                ("leader_epoch", Int32), ("replicas", _numbers), ("isr", _numbers),
                ("offline_replicas", _numbers), ("tags", TaggedFields))),
            ("authorized_operations", Int32), ("tags", TaggedFields))),
        ("authorized_operations", Int32),
        ("tags", TaggedFields),
    )  # fmt: skip


class _TopicRequestStruct(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY = 3
    API_VERSION = 10  # the first that tells a topic's id
    RESPONSE_TYPE = _TopicResponse
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", _Uuid), ("name", _text), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _TopicRequest(Request[_TopicRequestStruct]):  # type: ignore[misc]
    API_KEY = 3

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def build(self, request_struct_class: type[_TopicRequestStruct]) -> _TopicRequestStruct:
        """A question about one topic by its name."""
        return request_struct_class([(NO_ID, self._topic, {})], False, False, False, {})
