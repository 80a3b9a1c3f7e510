"""What can be set about an embedded broker, and what its handlers share."""

import asyncio
import itertools
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self

from worker.broker.codes import Code, Refused
from worker.broker.groups import Groups
from worker.broker.log import Budget
from worker.broker.topics import Topics
from worker.errors import ConfigError

NODE = 0
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a broker; nonsense is refused with the name and the remedy."""

    host: str = "127.0.0.1"
    port: int = 0
    retention_bytes: int = 512 * MIB
    partitions: int = 4
    auto_create: bool = True
    max_request_bytes: int = 64 * MIB
    max_response_bytes: int = 50 * MIB
    max_connections: int = 512
    held_bytes: int = 256 * MIB  # of frames not yet whole, and of answers not yet taken
    frame_s: float = 30.0  # to send a frame, and to take an answer
    idle_s: float = 600.0  # between two frames
    min_session_s: float = 1.0
    max_session_s: float = 1800.0
    clean_every_s: float = 15.0

    def __post_init__(self) -> None:
        if not self.host:
            raise ConfigError("host: is empty; use 0.0.0.0 to listen on every address")
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"port: {self.port} is no port; use one up to 65535, or 0 for any")
        for name, low in {"retention_bytes": MIB, "partitions": 1}.items():
            if (value := getattr(self, name)) < low:
                raise ConfigError(f"{name}: {value!r} is too small; use {low} or more")


@dataclass(slots=True)
class Cluster:
    """Everything that the handlers of requests work on: one node's topics and groups."""

    settings: Settings
    topics: Topics
    groups: Groups
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:22])
    checking: asyncio.Lock = field(default_factory=asyncio.Lock)
    producer_ids: Iterator[int] = field(default_factory=lambda: itertools.count(1000))

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """An empty cluster with these settings."""
        topics = Topics(Budget(settings.retention_bytes), settings.partitions, now_ms)
        return cls(settings, topics, Groups())

    def refusing(self, why: str) -> Self:
        """The same node for a request that is refused: each part of it is answered with a code."""
        nothing: Any = Refusing(why)
        return replace(self, topics=nothing, groups=nothing)


class Refusing:
    """In the place of topics and groups: whatever is asked of it is refused."""

    def __init__(self, why: str) -> None:
        self._why = why

    def __getattr__(self, name: str) -> Any:
        raise Refused(Code.INVALID_REQUEST, self._why)

    __getitem__ = __contains__ = __getattr__


def now_ms() -> int:
    """The time of day in milliseconds, as Kafka counts it."""
    return time.time_ns() // 1_000_000
