"""A worker's own web server, without the worker."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

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
