"""The embedded broker: reads requests and answers them. No request of a client ends it."""

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
    answer_frame,
    read_call,
    read_frame,
)
from worker.errors import ConfigError

log = logging.getLogger(__name__)

READ_AHEAD_BYTES = 2**16  # for a connection; asyncio buffers up to twice this
THREAD_BYTES = 2**16  # larger requests are decoded in a thread, while others are served
ANY_HOST = {"0.0.0.0", "::"}


class Broker:
    """A single in-memory Kafka node. It keeps its data over stop() and start() in the same loop."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0, **options: Any) -> None:
        self.settings = Settings(host, port, **options)
        self.port = port
        self.cluster = Cluster.of(self.settings)
        self._server: asyncio.Server | None = None
        self._cleaner: asyncio.Task[None] | None = None
        self._buffered = BufferedBytes(self.settings.held_bytes)
        self._decoding = asyncio.Lock()
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def address(self) -> str:
        """Where clients on this machine reach it."""
        host = "127.0.0.1" if self.settings.host in ANY_HOST else self.settings.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    async def start(self) -> None:
        """A broker that was stopped listens on the same port again."""
        host = self.settings.host
        try:
            server = asyncio.start_server(
                self._handle_connection, host, self.port, limit=READ_AHEAD_BYTES
            )
            self._server = await server
        except OSError as error:
            number = error.errno or 0  # a name that cannot be resolved has a negative one
            why = os.strerror(number) if number > 0 else error.strerror
            raise ConfigError(
                f"port: cannot listen on {host}:{self.port} ({why}); free it or choose another"
            ) from error
        self.port = self._server.sockets[0].getsockname()[1]
        self._cleaner = asyncio.create_task(self._keep_clean())

    async def stop(self) -> None:
        """Records and offsets stay; members have to join again."""
        if self._server is None or self._cleaner is None:
            return
        self._server.close()
        self._server = None
        self._cleaner.cancel()
        await asyncio.gather(self._cleaner, return_exceptions=True)
        await self.drop_connections()
        self.cluster.groups.forget_members()

    async def drop_connections(self) -> None:
        """As when the network fails; clients may reconnect at once."""
        tasks = dict(self._connections)
        for task, writer in tasks.items():
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_clean(self) -> None:
        while True:
            await asyncio.sleep(self.settings.clean_every_s)
            try:
                await self.cluster.topics.clean()
            except Exception as error:  # noqa: BLE001 - a log that cannot be cleaned stays as it is
                log.error("cleaning: %s: %s", type(error).__name__, error)

    async def _handle_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        if task is None or self._server is None:
            writer.transport.abort()  # it came during the stop
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
            pass  # the client is gone, or we are stopping
        except Exception as error:  # noqa: BLE001 - one client's request must not end the broker
            log.error("%s: %s: %s; connection closed", client.peer, type(error).__name__, error)
        finally:
            del self._connections[task]
            writer.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client: Client
    ) -> None:
        limits = self.settings
        bounds = (limits.max_request_bytes, self._buffered, limits.idle_s, limits.frame_s)
        while (frame := await read_frame(reader, *bounds)) is not None:
            call = await self._read(frame, client)
            del frame
            cluster = self.cluster.refusing(call.refusal) if call.refusal else self.cluster
            response = await API_HANDLERS[call.api_key].handler(cluster, call)
            if response is not None:
                await self._answer(writer, answer_frame(call, response))

    async def _read(self, frame: bytes, client: Client) -> Call:
        if len(frame) < THREAD_BYTES:
            return read_call(frame, API_HANDLERS, client)
        async with self._decoding:  # one at a time: a decoded request may be larger than its bytes
            return await asyncio.to_thread(read_call, frame, API_HANDLERS, client)

    async def _answer(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        self._buffered.reserve(len(data))
        try:
            writer.write(data)
            async with asyncio.timeout(self.settings.frame_s):
                await writer.drain()
        except TimeoutError as error:
            writer.transport.abort()
            raise BadFrameError(
                f"the client did not read {len(data)} bytes of a response"
            ) from error
        finally:
            self._buffered.used -= len(data)

    def _client(self, writer: asyncio.StreamWriter) -> Client:
        """A broker that listens on all addresses names the one that the client used."""
        host = self.settings.host
        if host in ANY_HOST:
            host = writer.get_extra_info("sockname")[0]
        peer = writer.get_extra_info("peername") or ("a client that is gone",)
        return Client(peer[0], host, self.port)


T = TypeVar("T")
FINISH_S = 1.0


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
        """Keeps the address and the data for the next start."""
        self.call(self.broker.stop())

    def start(self) -> None:
        self.call(self.broker.start())


async def finish_tasks() -> None:
    """Wait for what the loop has started, such as a connection that came during the stop."""
    if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(tasks, timeout=FINISH_S)
    await asyncio.sleep(0)  # an aborted transport closes its socket in the next round


@contextmanager
def running(port: int = 0, **options: Any) -> Iterator[Address]:
    """A broker in a thread of its own, for tests and the demo; port 0 picks a free one."""
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
