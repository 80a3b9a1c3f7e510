import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from tests.worker.small_encoder import Mail
from tests.worker.stream.fake_clients import met
from tests.worker.stream.test_flow import Bench, FakePipeline
from worker.config import Config, StreamConfig
from worker.errors import ConfigError, StalledError
from worker.process import app as module
from worker.process.app import make_app
from worker.process.prepare import log_reasons
from worker.stream.ledger import Ledger
from worker.stream.partitions import Positions, Tenures

PLACE = TopicPartition("tweets", 0)


class FakeParts(Bench):
    made: "FakeParts"

    def __init__(self, config: Config, ledger: Ledger, fail: Callable[[Exception], None]) -> None:
        FakeParts.made = self
        super().__init__(ledger)
        self.acknowledge.set()
        self.pipeline.go.release(1000)
        self.positions = Positions(self.consumer, "tweets", ledger, Tenures(30), self.metrics, fail)
        self.ingest = self.control = SimpleNamespace(
            read=asyncio.Event().wait, follow=lambda _: asyncio.Event().wait(),
            report_metrics=lambda: None,
        )  # fmt: skip
        self.make_seeds: Any = None
        self.paused = False
        self.settled: bool | None = None

    async def start(self) -> None: ...

    async def stop(self, *, settle: bool) -> None:
        self.settled = settle


@asynccontextmanager
async def started(
    monkeypatch: pytest.MonkeyPatch, config: Config | None = None
) -> AsyncIterator[tuple[Any, FakeParts]]:
    """A started app that notes the errors that would end it."""
    monkeypatch.setattr(module, "WorkerParts", FakeParts)
    app = make_app()
    app.config, app.errors = config or Config(), []
    app.leave = app.errors.append
    await app.start()
    await asyncio.sleep(0)
    try:
        yield app, FakeParts.made
    finally:
        FakeParts.made.pipeline.go.release(1000)
        await app.stop()
    app.consumer._thread.thread_loop.close()  # each stream makes one, which is never started


def add(parts: FakeParts, count: int) -> None:
    for offset in range(count):
        parts.ledger.add([Mail(b"", offset=offset)])


async def test_faust_starts_no_consumer_and_no_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it has no topic and no rebalance of its own."""
    async with started(monkeypatch) as (app, _):
        assert list(app.boot_strategy.server()) == [app.agents]
        assert not app.producer.started
        assert not app.consumer.started
        assert app.conf.processing_guarantee.value == "at_least_once"


async def test_each_batch_goes_to_one_agent_also_when_faust_clears_its_channels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An ordinary channel gives a batch to each subscriber, and its queue ends in a rebalance."""
    async with started(monkeypatch) as (app, parts):
        parts.ledger.pause(True)  # so that all wait
        add(parts, 8)
        [agent] = app.agents.values()
        assert agent.channel.queue.empty()
        assert agent.concurrency == app.config.stream.in_flight
        app.flow_control.clear()
        app.flow_control.suspend()
        await asyncio.sleep(0)
        parts.ledger.pause(False)
        await met(lambda: parts.consumer.commits and parts.consumer.commits[-1] == {PLACE: 8})
        assert parts.flow.finished == len(parts.sent) == 8


async def test_a_batch_that_comes_before_the_agent_listens_is_not_lost() -> None:
    [agent] = make_app().agents.values()
    batch = agent.channel._ledger.add([Mail(b"")])
    async for first in aiter(agent.channel):
        assert first is batch
        break


async def test_an_agent_that_fails_ends_the_process_and_is_not_restarted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with started(monkeypatch) as (app, parts):
        parts.pipeline.error = ZeroDivisionError("by the test")
        add(parts, 1)
        await met(lambda: app.errors)
        assert [type(error) for error in app.errors] == [ZeroDivisionError]
        [agent] = app.agents.values()
        assert type(agent.supervisor).__name__ == "CrashingSupervisor"
    assert parts.settled is False
    assert parts.consumer.commits == []


async def test_a_stalled_worker_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WATCH_INTERVAL_S", 0.01)
    config = replace(Config(), stream=StreamConfig(stall_s=1.0))
    async with started(monkeypatch, config) as (app, parts):
        parts.pipeline.go = FakePipeline().go  # which nobody passes
        parts.consumer.places = {PLACE}
        add(parts, 1)
        await met(lambda: app.errors)
        assert [type(error) for error in app.errors] == [StalledError]


@pytest.mark.parametrize("where", ["topic", "channel"])
def test_an_agent_of_the_users_own_works_or_is_refused(where: str) -> None:
    """On a topic it would never receive: Faust's consumer is not started."""
    app = make_app()
    channel = app.topic("matched-tweets") if where == "topic" else app.channel()

    @app.agent(channel, name="mine")  # type: ignore[untyped-decorator]
    async def mine(stream: Any) -> None: ...

    if where == "channel":
        app.check()
        return
    with pytest.raises(ConfigError, match="agent mine: reads the topic matched-tweets"):
        app.check()


def test_the_page_about_faust_shows_the_agent_as_it_is() -> None:
    page, code = Path("docs/faust.md").read_text("utf-8"), inspect.getsource(make_app)
    shown = page.split("```python\n")[1].split("```")[0].splitlines()
    assert len(shown) > 5
    assert [line for line in shown if line not in code] == []


async def test_a_start_that_takes_long_says_what_it_does(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "newsift.stream")
    reasons = iter(["it loads", "it loads", "it compiles", "it compiles"])
    task = asyncio.create_task(log_reasons(lambda: next(reasons, "it waits"), every_s=0))
    while "waits" not in caplog.text:
        await asyncio.sleep(0)
    task.cancel()
    assert [record.args for record in caplog.records] == [
        ("it loads",), ("it compiles",), ("it waits",),
    ]  # fmt: skip
