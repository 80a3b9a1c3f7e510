"""Faust's own traps, each with what this worker does instead; the others stand in test_stream."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.worker.small import Mail
from tests.worker.stream.fakes import met
from worker.config import Config
from worker.service import app as module
from worker.service.app import App, make_app
from worker.stream.ledger import Ledger
from worker.watch.metrics import Metrics


class FakeStream:
    """A stream of nothing but a ledger; the tests add batches, Faust's agent takes them."""

    made: "FakeStream"

    def __init__(self, _: Config, __: Metrics, ticket: Callable[[], Awaitable[None]]) -> None:
        FakeStream.made = self
        self.ledger, self.ticket, self.taken = Ledger(10), ticket, list[int]()
        self.failure: Exception | None = None

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def stop(self) -> None: ...

    def fail(self, error: Exception) -> None:
        self.failure = error

    async def sift(self) -> None:
        batch = self.ledger.take()
        if batch is not None:
            self.taken.append(batch.messages[0].offset)
            await asyncio.sleep(0)

    async def add(self, offset: int) -> None:
        self.ledger.add([Mail(b"", offset=offset)])
        await self.ticket()


def with_app(
    story: Callable[[App, FakeStream], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run a story inside a started app, with a fake in the place of the stream."""
    monkeypatch.setattr(module, "Stream", FakeStream)

    async def run() -> None:
        app = make_app()
        await app.start()
        await story(app, FakeStream.made)
        await app.stop()
        app.consumer._thread.thread_loop.close()  # each stream makes one, which is never started

    asyncio.run(run())


def test_faust_starts_its_agents_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No consumer, no producer, no tables: so no topic of its own, and no rebalance of its own."""

    async def story(app: App, _: FakeStream) -> None:
        assert list(app.boot_strategy.server()) == [app.agents]
        assert app._producer is None
        assert not app.consumer.started
        assert app.conf.processing_guarantee.value == "at_least_once"

    with_app(story, monkeypatch)


def test_a_ticket_goes_to_one_of_the_agents_not_to_each(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(_: App, stream: FakeStream) -> None:
        for offset in range(8):
            await stream.add(offset)
        await met(lambda: len(stream.taken) == 8)
        assert stream.taken == list(range(8))

    with_app(story, monkeypatch)


def test_a_cleared_channel_loses_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faust's own rebalance clears the queue of every channel."""

    async def story(app: App, stream: FakeStream) -> None:
        for offset in range(4):
            stream.ledger.add([Mail(b"", offset=offset)])
            await stream.ticket()
        app.flow_control.clear()
        await asyncio.sleep(0)
        assert stream.ledger.waiting > 0  # the trap has fired
        for _ in range(stream.ledger.waiting):  # as the stream does at every look
            await stream.ticket()
        await met(lambda: sorted(stream.taken) == list(range(4)))

    with_app(story, monkeypatch)


def test_a_ticket_without_a_subscriber_is_dropped_and_its_batch_is_not() -> None:
    """The channel drops in silence what is put before an agent listens."""

    async def run() -> None:
        app = make_app()
        app.flow_control.resume()
        channel = app.channel()
        await channel.put(True)
        listener = channel.clone(is_iterator=True)
        await channel.put(True)
        assert listener.queue.qsize() == 1

    asyncio.run(run())


def test_an_agent_that_fails_ends_the_process_and_is_not_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(app: App, stream: FakeStream) -> None:
        async def broken() -> None:
            raise ZeroDivisionError

        stream.sift = broken  # type: ignore[method-assign]
        await stream.ticket()
        await met(lambda: stream.failure)
        assert isinstance(stream.failure, ZeroDivisionError)
        [agent] = app.agents.values()
        assert type(agent.supervisor).__name__ == "CrashingSupervisor"

    with_app(story, monkeypatch)
