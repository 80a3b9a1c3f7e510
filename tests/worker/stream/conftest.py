"""An ingest that reads while a test runs."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.worker.stream.ingest_bench import PLACE, Bench


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.ingest.start()
    bench.consumer.places = {PLACE}
    reading = asyncio.ensure_future(bench.ingest.read())
    yield bench
    reading.cancel()
