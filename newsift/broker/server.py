"""The embedded broker: reads requests and answers them. No client's request can end it."""

import asyncio
import logging
import os
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from newsift.broker.handlers import API_HANDLERS
from newsift.broker.settings import Cluster, Settings
from newsift.broker.wire import (
    BadFrameError,
    BufferedBytes,
    Call,
    Client,
    decode_call,
    encode_answer,
    read_frame,
)
from worker.errors import ConfigError

log = logging.getLogger(__name__)

READ_AHEAD_BYTES = 2**16  # of a connection; asyncio buffers up to twice this
MIN_THREAD_BYTES = 2**16  # larger requests are decoded in a thread, while others are served
ALL_ADDRESSES = {"0.0.0.0", "::"}


class Broker:
    """A single in-memory Kafka node. Its data survives stop() and start() in the same loop."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0, **options: Any) -> None:
        self.settings = Settings(host, port, **options)
        self.port = port
        self.cluster = Cluster.create(self.settings)
        self._server: asyncio.Server | None = None
        self._cleaner: asyncio.Task[None] | None = None
        self._buffer = BufferedBytes(self.settings.max_buffered_bytes)
        self._decoder_lock = asyncio.Lock()
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def address(self) -> str:
        """The host and port for clients on this machine."""
        host = "127.0.0.1" if self.settings.host in ALL_ADDRESSES else self.settings.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    async def start(self) -> None:
        """After a stop, it listens on the same port again."""
        host = self.settings.host
        try:
            server = asyncio.start_server(
                self._handle_connection, host, self.port, limit=READ_AHEAD_BYTES
            )
            self._server = await server
        except OSError as error:
            number = error.errno or 0  # negative for a name that cannot be resolved
            reason = os.strerror(number) if number > 0 else error.strerror
            raise ConfigError(
                f"port: cannot listen on {host}:{self.port} ({reason}); free it or choose another"
            ) from error
        self.port = self._server.sockets[0].getsockname()[1]
        self._cleaner = asyncio.create_task(self._clean_topics())

    async def stop(self) -> None:
        """Records and offsets stay; members of groups have to join again."""
        if self._server is None or self._cleaner is None:
            return
        self._server.close()
        self._server = None
        self._cleaner.cancel()
        await asyncio.gather(self._cleaner, return_exceptions=True)
        await self.drop_connections()
        self.cluster.groups.forget_members()

    async def drop_connections(self) -> None:
        """Simulate a network failure; clients may reconnect at once."""
        tasks = dict(self._connections)
        for task, writer in tasks.items():
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _clean_topics(self) -> None:
        while True:
            await asyncio.sleep(self.settings.clean_interval_s)
            try:
                await self.cluster.topics.clean()
            except Exception as error:  # noqa: BLE001 - a log that cannot be cleaned stays as it is
                log.error("cleaning: %s: %s", type(error).__name__, error)

    async def _handle_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        if task is None or self._server is None:
            writer.transport.abort()  # the broker is stopping
            return
        if len(self._connections) >= self.settings.max_connections:
            log.warning("%d connections are open; another is refused", len(self._connections))
            writer.transport.abort()
            return
        self._connections[task] = writer
        client = self._client(writer)
        try:
            await self._serve(reader, writer, client)
        except BadFrameError as error:
            log.warning("%s: %s; connection closed", client.peer, error)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client has left, or the broker is stopping
        except Exception as error:  # noqa: BLE001 - one client's request must not end the broker
            log.error("%s: %s: %s; connection closed", client.peer, type(error).__name__, error)
        finally:
            del self._connections[task]
            writer.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client: Client
    ) -> None:
        settings = self.settings
        limits = (
            settings.max_request_bytes, self._buffer, settings.max_idle_s, settings.max_frame_s,
        )  # fmt: skip
        while (frame := await read_frame(reader, *limits)) is not None:
            call = await self._decode(frame, client)
            del frame
            response = await API_HANDLERS[call.api_key].handler(self.cluster, call)
            if response is not None:
                await self._send(writer, encode_answer(call, response))

    async def _decode(self, frame: bytes, client: Client) -> Call:
        if len(frame) < MIN_THREAD_BYTES:
            return decode_call(frame, API_HANDLERS, client)
        async with self._decoder_lock:  # as a decoded request may be larger than its bytes
            return await asyncio.to_thread(decode_call, frame, API_HANDLERS, client)

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        self._buffer.reserve(len(data))
        try:
            writer.write(data)
            async with asyncio.timeout(self.settings.max_frame_s):
                await writer.drain()
        except TimeoutError as error:
            writer.transport.abort()
            raise BadFrameError(
                f"the client did not read {len(data)} bytes of a response"
            ) from error
        finally:
            self._buffer.size -= len(data)

    def _client(self, writer: asyncio.StreamWriter) -> Client:
        """If the broker listens on all addresses, the client gets the one that it used."""
        host = self.settings.host
        if host in ALL_ADDRESSES:
            host = writer.get_extra_info("sockname")[0]
        peer = writer.get_extra_info("peername") or ("a client that has left",)
        return Client(peer[0], host, self.port)


T = TypeVar("T")
MAX_FINISH_S = 1.0


class Address(str):
    """The "host:port" of a running broker, and access to the broker."""

    __slots__ = ("broker", "loop")
    broker: Broker
    loop: asyncio.AbstractEventLoop

    @property
    def address(self) -> str:
        return str(self)

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def stop(self) -> None:
        """The address and the data stay for the next start."""
        self.call(self.broker.stop())

    def start(self) -> None:
        self.call(self.broker.start())


async def finish_tasks() -> None:
    """Wait for the tasks of the loop, such as a connection that was made during the stop."""
    if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(tasks, timeout=MAX_FINISH_S)
    await asyncio.sleep(0)  # an aborted transport closes its socket in the next round


@contextmanager
def running(port: int = 0, **options: Any) -> Iterator[Address]:
    """Run a broker in a thread during the block; port 0 picks a free one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="newsift-broker", daemon=True)
    thread.start()
    try:
        broker = Broker(port=port, **options)
        asyncio.run_coroutine_threadsafe(broker.start(), loop).result()
        address = Address(broker.address)
        address.broker, address.loop = broker, loop
        try:
            yield address
        finally:
            address.stop()
            address.call(finish_tasks())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
