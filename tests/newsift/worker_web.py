"""A worker's own web server without the worker, and one that is not a worker's."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

from worker.config import WebConfig
from worker.metrics.registry import Metrics
from worker.metrics.web import Health, Web


@contextmanager
def worker_web(metrics: Metrics, health: Health) -> Iterator[str]:
    """Its address."""
    loop = asyncio.new_event_loop()
    web = Web(WebConfig("127.0.0.1", 0), metrics, lambda: health)
    thread = Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(web.start(), loop).result(20)
    try:
        yield f"127.0.0.1:{web.port}"
    finally:
        asyncio.run_coroutine_threadsafe(web.stop(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()


@contextmanager
def dripping(head: bytes) -> Iterator[tuple[int, Event]]:
    """The port of a server whose answer never ends, and whether its client has hung up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        broken = Event()

        def drip() -> None:
            link, _ = listener.accept()
            with link, suppress(OSError):
                link.sendall(head)
                while not broken.wait(0.01):
                    link.sendall(b"x")
            broken.set()

        Thread(target=drip, daemon=True).start()
        yield listener.getsockname()[1], broken


@contextmanager
def answering(raw: bytes) -> Iterator[str]:
    """The address of a server that answers whatever it is asked with these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            try:
                while True:
                    link, _ = listener.accept()
                    with link:
                        link.recv(2**16)
                        link.sendall(raw)
            except OSError:
                return

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(20)
