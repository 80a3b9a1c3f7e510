"""A worker's own web server without the worker."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.newsift.collect.fake_platform import in_a_thread
from tests.worker.metrics.test_web import serving
from worker.metrics.web import Health


@contextmanager
def worker_web(health: Health) -> Iterator[str]:
    """Its address."""
    with in_a_thread(serving(lambda: health)) as (web, _):
        yield f"127.0.0.1:{web.port}"
