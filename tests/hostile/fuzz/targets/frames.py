"""Requests to the embedded broker: answered, or no request of the protocol and hung up on."""

import asyncio
from typing import Any
from unittest.mock import patch

import newsift.broker.server
from newsift.broker.handlers import TABLE
from newsift.broker.log import read_header
from newsift.broker.server import running
from newsift.broker.settings import Cluster, Settings
from newsift.broker.wire import BadFrameError, answer_frame, read_call
from tests.broker.clients import admin, consumer, create, polled, until, write
from tests.hostile.fuzz.target import Target
from tests.newsift.broker.asking import CLIENT
from tests.newsift.broker.batches import numbered

PATIENCE_S = 0.02
TOKENS = [
    *(b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00\x00\x00\x01"),
    *(b"fuzz", b"\x00\x04fuzz", b"\x05fuzz", b"group", b"\xff\xff\xff\xff\x0f", b"\x80" * 9),
]  # fmt: skip


def opened() -> Target:
    frames = recorded()
    loop = asyncio.new_event_loop()

    def feed(frame: bytes) -> bool:
        cluster = Cluster.of(Settings(retention_bytes=2**24))
        log = cluster.topics.create("fuzz", 1).logs[0]
        data = numbered(3)
        log.append(data, read_header(data))
        try:
            return loop.run_until_complete(answered(cluster, frame))
        finally:
            cluster.groups.forget_members()

    return Target(frames, TOKENS, feed, ms_per_kb=60, largest=2**14)


async def answered(cluster: Cluster, frame: bytes) -> bool:
    if len(frame) < 8:
        return False
    try:
        call = read_call(frame, TABLE, CLIENT)
    except BadFrameError:
        return False
    try:
        async with asyncio.timeout(PATIENCE_S):
            response = await TABLE[call.api_key].handler(cluster, call)
    except (TimeoutError, ConnectionAbortedError):
        return True
    return response is None or bool(answer_frame(call, response))


def recorded() -> list[bytes]:
    seen: dict[tuple[bytes, int], bytes] = {}

    def recording(frame: bytes, *more: Any) -> Any:
        seen.setdefault((frame[:4], len(frame)), bytes(frame))
        return read_call(frame, *more)

    with patch.object(newsift.broker.server, "read_call", recording), running() as address:
        create(address, "fuzz", cleanup_policy="compact")
        write(address, "fuzz", [b"one", b"two", None], key=b"key")
        with consumer(address, "fuzz", group_id="group") as client:
            until(lambda: polled(client))
            client.commit()
        with admin(address) as client:
            client.list_group_offsets({"group": None})
            client.describe_groups(["group"])
            client.delete_topics(["fuzz"])
    return [frame for frame in seen.values() if len(frame) < 2**12]
