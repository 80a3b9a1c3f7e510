"""Faust's agent on a channel of ours, and each of Faust's own traps with what stands against it."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition

from tests.worker.small import Mail
from tests.worker.stream.fakes import met
from tests.worker.stream.test_flow import Bench, FakePipeline
from worker.config import Config, StreamConfig
from worker.errors import ConfigError, StalledError
from worker.process import app as module
from worker.process.app import App, make_app
from worker.seeds.embedder import SeedEmbedder
from worker.stream.ledger import Ledger
from worker.stream.offsets import Positions

PLACE = TopicPartition("tweets", 0)


class Nothing:
    """A part that reads nothing and follows nothing."""

    async def read(self) -> None:
        await asyncio.Event().wait()

    async def follow(self, _: SeedEmbedder) -> None:
        await asyncio.Event().wait()

    def describe(self) -> None: ...


class FakeParts(Bench):
    """The parts of a worker, with fakes in the place of Kafka and the model."""

    made: "FakeParts"

    def __init__(self, config: Config, ledger: Ledger, fail: Callable[[Exception], None]) -> None:
        FakeParts.made = self
        super().__init__(ledger)
        self.delivery.acknowledge.set()
        self.pipeline.go.release(1000)
        self.positions = Positions(self.consumer, "tweets", ledger, self.metrics, fail)
        self.ingest = self.control = Nothing()
        self.embedder: Any = None
        self.paused = False
        self.settled: bool | None = None

    async def start(self) -> None: ...

    async def stop(self, *, settle: bool) -> None:
        self.settled = settle


Story = Callable[[App, FakeParts], Awaitable[None]]


def play(story: Story, monkeypatch: pytest.MonkeyPatch, config: Config | None = None) -> FakeParts:
    """Run a story inside a started app; the errors that end it are kept."""
    monkeypatch.setattr(module, "Parts", FakeParts)

    async def run() -> None:
        app = make_app()
        app.config, app.errors = config or Config(), []
        app.leave = app.errors.append
        await app.start()
        await asyncio.sleep(0)
        try:
            await story(app, FakeParts.made)
        finally:
            FakeParts.made.pipeline.go.release(1000)
            await app.stop()
        app.consumer._thread.thread_loop.close()  # each stream makes one, which is never started

    asyncio.run(run())
    return FakeParts.made


def add(parts: FakeParts, count: int) -> None:
    for offset in range(count):
        parts.ledger.add([Mail(b"", offset=offset)])


def test_faust_starts_its_agents_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No consumer, no producer, no tables: so no topic of its own, and no rebalance of its own."""

    async def story(app: App, _: FakeParts) -> None:
        assert list(app.boot_strategy.server()) == [app.agents]
        assert not app.producer.started
        assert not app.consumer.started
        assert app.conf.processing_guarantee.value == "at_least_once"

    play(story, monkeypatch)


def test_each_batch_goes_to_one_of_the_agents_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary channel gives what is put to each subscriber, or loses it."""

    async def story(app: App, parts: FakeParts) -> None:
        add(parts, 8)
        await met(lambda: not parts.ledger.unfinished)
        await met(lambda: parts.consumer.commits and parts.consumer.commits[-1] == {PLACE: 8})
        assert parts.flow.finished == len(parts.delivery.sent) == 8
        [agent] = app.agents.values()
        assert agent.concurrency == app.config.stream.in_flight

    play(story, monkeypatch)


def test_a_cleared_channel_loses_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faust's own rebalance clears the queue of every channel: ours has nothing in its own."""

    async def story(app: App, parts: FakeParts) -> None:
        parts.ledger.pause(True)  # so that all wait
        add(parts, 4)
        [agent] = app.agents.values()
        assert agent.channel.queue.empty()
        app.flow_control.clear()
        app.flow_control.suspend()
        await asyncio.sleep(0)
        parts.ledger.pause(False)
        await met(lambda: parts.flow.finished == 4)

    play(story, monkeypatch)


def test_what_comes_before_anybody_listens_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary channel drops in silence what is put before an agent listens."""

    async def ordinary() -> None:
        app = make_app()
        app.flow_control.resume()
        channel = app.channel()
        await channel.put(True)
        listener = channel.clone(is_iterator=True)
        await channel.put(True)
        assert listener.queue.qsize() == 1

    asyncio.run(ordinary())

    async def ours() -> None:
        app = make_app()
        [agent] = app.agents.values()
        batch = agent.channel._ledger.add([Mail(b"")])
        async for found in aiter(agent.channel):
            assert found is batch
            break

    asyncio.run(ours())


def test_nothing_is_committed_before_the_agent_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(_: App, parts: FakeParts) -> None:
        parts.delivery.acknowledge.clear()
        add(parts, 1)
        await met(lambda: parts.delivery.sent)
        await asyncio.sleep(0.05)
        assert parts.consumer.commits == []
        parts.delivery.acknowledge.set()
        await met(lambda: parts.consumer.commits == [{PLACE: 1}])

    play(story, monkeypatch)


def test_an_agent_that_fails_ends_the_process_and_is_not_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(app: Any, parts: FakeParts) -> None:
        parts.pipeline.error = ZeroDivisionError("as the test wanted")
        add(parts, 1)
        await met(lambda: app.errors)
        [error] = app.errors
        assert isinstance(error, ZeroDivisionError)
        [agent] = app.agents.values()
        assert type(agent.supervisor).__name__ == "CrashingSupervisor"

    parts = play(story, monkeypatch)
    assert parts.settled is False
    assert parts.consumer.commits == []


def test_a_worker_that_stands_still_while_posts_wait_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.01)

    async def story(app: Any, parts: FakeParts) -> None:
        parts.pipeline.go = FakePipeline().go  # nobody gets past it
        parts.consumer.places = {PLACE}
        add(parts, 1)
        await met(lambda: app.errors)
        [error] = app.errors
        assert isinstance(error, StalledError)
        assert "100 posts wait" in str(error)

    play(story, monkeypatch, replace(Config(), stream=StreamConfig(stall_s=1.0)))


@pytest.mark.parametrize("where", ["topic", "channel"])
def test_an_agent_of_the_users_own_works_or_is_refused(where: str) -> None:
    """On a topic it would start and never receive: Faust's consumer is not started."""
    app = make_app()
    channel = app.topic("matched-tweets") if where == "topic" else app.channel()

    @app.agent(channel, name="mine")  # type: ignore[untyped-decorator]
    async def mine(stream: Any) -> None: ...

    if where == "channel":
        app.check()
        return
    with pytest.raises(ConfigError, match=r"agent mine: reads the topic matched-tweets .*faust\.A"):
        app.check()


def test_the_page_about_faust_shows_the_agent_as_it_is() -> None:
    page, code = Path("docs/faust.md").read_text("utf-8"), inspect.getsource(make_app)
    shown = page.split("```python\n")[1].split("```")[0].splitlines()
    assert len(shown) > 5
    assert [line for line in shown if line not in code] == []
