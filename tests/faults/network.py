"""A network between worker and broker that a story can slow down, narrow or cut."""

import asyncio
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from anyio.from_thread import start_blocking_portal

PRODUCE = 0  # the number of the request
PIECE = 2**16


class Network:
    def __init__(self, broker: str) -> None:
        self._host, self.broker_port = broker.rsplit(":")[0], int(broker.rsplit(":")[1])
        self.port = 0
        self.latency_s = 0.0  # of each piece, in each direction
        self.bytes_per_s = 0  # of each connection, in each direction; 0: as many as there are
        self.produce_s = 0.0  # so long each request that writes records is held up
        self.carried = 0  # bytes
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def route(self) -> tuple[int, int]:
        return self.broker_port, self.port

    def reset(self) -> int:
        return self._portal.call(self._reset)

    @contextmanager
    def open(self) -> Iterator[Self]:
        with start_blocking_portal() as self._portal:
            server = self._portal.call(asyncio.start_server, self._connected, "127.0.0.1")
            self.port = server.sockets[0].getsockname()[1]
            try:
                yield self
            finally:
                self._portal.call(server.close)
                self.reset()

    async def _reset(self) -> int:
        cut = len(self._writers) // 2
        for writer in list(self._writers):
            lingering = struct.pack("ii", 1, 0)  # closed at once, so that the peer is sent a reset
            writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, lingering
            )
            writer.transport.abort()
        return cut

    async def _connected(self, worker: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        try:
            broker, requests = await asyncio.open_connection(self._host, self.broker_port)
        except OSError:
            answers.transport.abort()
            return
        both = {answers, requests}
        self._writers |= both
        ways = [self._requests(worker, requests), self._pieces(broker, answers, -1)]
        tasks = [asyncio.ensure_future(way) for way in ways]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._writers -= both
        for writer in both:
            writer.transport.abort()

    async def _requests(self, source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        """Carry requests, each of which begins with its size and its kind."""
        while True:
            head = await source.readexactly(6)
            size, kind = struct.unpack(">ih", head)
            if kind == PRODUCE:
                await asyncio.sleep(self.produce_s)
            to.write(head)  # nothing comes of it before the rest is there, so it need not wait
            await self._pieces(source, to, size - 2)

    async def _pieces(
        self, source: asyncio.StreamReader, to: asyncio.StreamWriter, left: int
    ) -> None:
        while left:
            most = self.bytes_per_s // 4 or PIECE
            piece = await source.read(min(most, left) if left > 0 else most)
            if not piece:
                raise ConnectionError("one side has hung up")
            left -= len(piece)
            await self._carry(piece, to)

    async def _carry(self, piece: bytes, to: asyncio.StreamWriter) -> None:
        narrow = len(piece) / self.bytes_per_s if self.bytes_per_s else 0
        await asyncio.sleep(self.latency_s + narrow)
        self.carried += len(piece)
        to.write(piece)
        await to.drain()
