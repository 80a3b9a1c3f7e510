"""The settings of an embedded broker, and the state that its handlers share."""

import asyncio
import itertools
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

from newsift.broker.groups import Groups
from newsift.broker.log import MemoryBudget
from newsift.broker.topics import Topics
from worker.errors import ConfigError

NODE_ID = 0
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Settings:
    """Raises ConfigError for invalid values."""

    host: str = "127.0.0.1"
    port: int = 0
    retention_bytes: int = 512 * MIB
    partitions: int = 4
    auto_create: bool = True
    max_request_bytes: int = 64 * MIB
    max_response_bytes: int = 50 * MIB
    max_connections: int = 512
    max_buffered_bytes: int = 256 * MIB  # incomplete frames and unsent answers of all connections
    max_frame_s: float = 30.0  # for a client to send a frame, and to read an answer
    max_idle_s: float = 600.0  # between two frames
    min_session_s: float = 1.0
    max_session_s: float = 1800.0
    clean_interval_s: float = 15.0

    def __post_init__(self) -> None:
        if not self.host:
            raise ConfigError("host: is empty; use 0.0.0.0 to listen on every address")
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"port: {self.port} is not a port; use one up to 65535, or 0 for any")
        for name, low in {"retention_bytes": MIB, "partitions": 1}.items():
            if (value := getattr(self, name)) < low:
                raise ConfigError(f"{name}: {value!r} is too small; use {low} or more")


@dataclass(slots=True)
class Cluster:
    settings: Settings
    topics: Topics
    groups: Groups
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:22])
    batch_check: asyncio.Lock = field(default_factory=asyncio.Lock)  # held by a check in a thread
    producer_ids: Iterator[int] = field(default_factory=lambda: itertools.count(1000))

    @classmethod
    def create(cls, settings: Settings) -> Self:
        topics = Topics(MemoryBudget(settings.retention_bytes), settings.partitions, now_ms)
        return cls(settings, topics, Groups())


def now_ms() -> int:
    return time.time_ns() // 1_000_000
