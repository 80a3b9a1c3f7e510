"""An embedded broker in a thread of its own, for code that is not asyncio: tests, the demo."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from worker.broker.server import Broker

T = TypeVar("T")


class Address(str):
    """The "host:port" of a running broker, and the handle to what runs there."""

    __slots__ = ("broker", "loop")
    broker: Broker
    loop: asyncio.AbstractEventLoop

    @property
    def address(self) -> str:
        """The address as a plain string."""
        return str(self)

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the broker's thread, and wait for what it gives."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def stop(self) -> None:
        """Stop the broker; `start` brings it back at the same address with its data."""
        self.call(self.broker.stop())

    def start(self) -> None:
        """Start the broker again."""
        self.call(self.broker.start())


@contextmanager
def running(port: int = 0, **options: Any) -> Iterator[Address]:
    """Run a broker while the block lasts; port 0 picks a free one."""
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
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
