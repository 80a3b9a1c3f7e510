"""The hot path with fakes in the place of Kafka and the model: what is done when, and what not."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from aiokafka import TopicPartition

from tests.worker.small import Mail, mail, seed_set, small_encoder
from tests.worker.stream.fakes import FakeConsumer, ended, met
from worker.config import TopicsConfig
from worker.judge.drift import Drift
from worker.judge.near import NearWatch
from worker.kafka.producer import Letter
from worker.match.pipeline import Outcome, Pipeline
from worker.match.records import Record, to_dead_letter
from worker.posts.read import Reason
from worker.stream.flow import Flow
from worker.stream.ledger import Ledger
from worker.stream.offsets import Positions
from worker.stream.rejected import RejectedBytes
from worker.watch.metrics import Metrics

PLACE = TopicPartition("tweets", 0)
PATIENCE_S = 20


class FakePipeline:
    """A pipeline that waits until it is let go, and makes one record of every message."""

    def __init__(self) -> None:
        self.go, self.running = threading.Semaphore(0), threading.Event()
        self.error: Exception | None = None

    def run(self, messages: Sequence[Any], *_: object) -> Outcome:
        self.running.set()
        assert self.go.acquire(timeout=PATIENCE_S), "the event loop is blocked"
        if self.error is not None:
            raise self.error
        records = [Record("match", None, b"", [], n) for n in range(len(messages))]
        return Outcome(read=len(messages), records=records)


class FakeDelivery:
    """A delivery whose acknowledgements come when a test lets them."""

    def __init__(self) -> None:
        self.sent, self.acknowledge = list[Letter](), asyncio.Event()

    async def deliver(self, letters: Sequence[Letter], _: object) -> None:
        self.sent += letters
        await self.acknowledge.wait()


class Bench:
    """A flow with fakes in the place of Kafka and the model."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        self.metrics, self.ledger = Metrics(), Ledger(3) if ledger is None else ledger
        self.consumer, self.pipeline, self.delivery = FakeConsumer(), FakePipeline(), FakeDelivery()
        seeds, self.rejected_bytes = seed_set(), RejectedBytes(10)
        positions = Positions(self.consumer, "tweets", self.ledger, self.metrics, ended)
        self.commit = positions.commit
        pipeline: Any = self.pipeline
        delivery: Any = self.delivery
        self.flow = Flow(
            *(pipeline, lambda: seeds, delivery, self.ledger, TopicsConfig(), self.metrics),
            Drift(lambda rows: np.zeros(len(rows), np.float32), 0.01, None),
            NearWatch(lambda rows, _: np.zeros(len(rows), np.float32)),
            self.rejected_bytes,
        )
        self.flow.prepare(seeds)

    async def sift(self) -> None:
        """What the agent does with a batch."""
        batch = await self.ledger.next()
        outcome = await self.flow.match(batch)
        await self.flow.deliver(batch, outcome)
        self.flow.finish(batch, outcome)

    def post(self, offset: int) -> "asyncio.Task[None]":
        """Start the work on a batch of one post."""
        self.ledger.add([Mail(b"", offset=offset)])
        return asyncio.ensure_future(self.sift())


def test_the_event_loop_is_free_while_the_model_works() -> None:
    """An agent that blocks the loop loses its heartbeats."""

    async def run() -> None:
        bench = Bench()
        bench.delivery.acknowledge.set()
        work = bench.post(0)
        await met(bench.pipeline.running.is_set)
        bench.pipeline.go.release()  # by the loop, while the pipeline runs
        await work
        assert bench.ledger.unfinished == 0

    asyncio.run(run())


def test_nothing_is_committed_before_the_output_is_acknowledged() -> None:
    """Faust's send and its sinks hand back before anything is delivered."""

    async def run() -> None:
        bench = Bench()
        bench.pipeline.go.release()
        work = bench.post(0)
        await met(lambda: bench.delivery.sent)
        await bench.commit()
        assert bench.consumer.commits == []
        bench.delivery.acknowledge.set()
        await work
        await bench.commit()
        assert bench.consumer.commits == [{PLACE: 1}]

    asyncio.run(run())


def test_nothing_past_a_failure_is_committed() -> None:
    """`take()` acks a batch even when the body raises; and Faust skips a head that is not acked."""

    async def run() -> None:
        bench = Bench()
        bench.delivery.acknowledge.set()
        first = bench.post(0)
        bench.pipeline.error = ZeroDivisionError("as the test wanted")
        bench.pipeline.go.release()
        with pytest.raises(ZeroDivisionError):
            await first
        bench.pipeline.error = None
        second = bench.post(1)
        bench.pipeline.go.release()
        await second
        await bench.commit()
        assert bench.consumer.commits == []

    asyncio.run(run())


def test_a_batch_of_an_older_assignment_is_neither_sent_nor_committed() -> None:
    async def run() -> None:
        bench = Bench()
        work = bench.post(0)
        await met(bench.pipeline.running.is_set)
        bench.ledger.drop()
        bench.pipeline.go.release()
        await work
        await bench.commit()
        assert bench.delivery.sent == []
        assert bench.consumer.commits == []

    asyncio.run(run())


def test_dead_letters_beyond_the_bytes_of_their_record_batch_have_no_value() -> None:
    async def run() -> None:
        bench = Bench()  # whose dead letters of one batch may carry 10 bytes
        bench.rejected_bytes.note("tweets", 0, 0, 2, 18)
        bench.delivery.acknowledge.set()
        messages = [Mail(b"123456", offset=offset) for offset in range(3)]
        outcome = Outcome(records=[
            to_dead_letter(at, message, Reason.BAD_JSON, "") for at, message in enumerate(messages)
        ])  # fmt: skip
        await bench.flow.deliver(bench.ledger.add(messages), outcome)
        assert [letter.value for letter in bench.delivery.sent] == [b"123456", None, None]
        assert {dict(letter.headers)["bytes"] for letter in bench.delivery.sent} == {b"6"}

    asyncio.run(run())


def test_matches_are_grouped_in_the_order_of_the_offsets_though_batches_overtake() -> None:
    """The second batch is matched first, yet its copy joins what the first one has."""

    async def run() -> None:
        bench = Bench()
        bench.delivery.acknowledge.set()
        slow, fast = threading.Event(), threading.Event()
        whole = Pipeline(small_encoder())

        def matched(messages: Sequence[Any], _: object, now: Any, __: object) -> Outcome:
            if messages[0].offset == 0:
                assert slow.wait(PATIENCE_S)
                return whole.run(messages, seed_set(), now)
            found = whole.run(messages, seed_set(), now)
            fast.set()
            return found

        bench.pipeline.run = matched  # type: ignore[method-assign, assignment]
        for offset in range(2):
            bench.ledger.add([mail(str(offset), "storm flood river city", offset)])
        works = [asyncio.ensure_future(bench.sift()) for _ in range(2)]
        await met(fast.is_set)
        await asyncio.sleep(0.01)
        assert bench.delivery.sent == []
        slow.set()
        await asyncio.gather(*works)
        rows = sorted((json.loads(letter.value or b"") for letter in bench.delivery.sent),
                      key=lambda row: str(row["post"]["id"]))  # fmt: skip
        assert [row["new"] for row in rows] == [True, False]
        assert {row["group"] for row in rows} == {rows[0]["matches"][0]["match_id"]}

    asyncio.run(run())


def test_a_burst_is_logged_and_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 28_000_000  # minutes since 1970
    monkeypatch.setattr("worker.stream.flow.time.time", lambda: 60.0 * now)

    async def run() -> str:
        nonlocal now
        bench = Bench()
        bench.flow.finish(bench.ledger.add([Mail(b"")]), Outcome())
        now += 20
        outcome = Outcome(stories=Counter({("fire", now): 5}))
        bench.flow.finish(bench.ledger.add([Mail(b"")]), outcome)
        return bench.metrics.render().decode()

    page = asyncio.run(run())
    assert 'newsift_bursts_total{event="fire"} 1.0' in page
    told = [record.getMessage() for record in caplog.records]
    minute = "2023-03-28T11:00:00.000Z"
    burst = f"event fire: a burst of 5 new stories in the minute of {minute}, after 0 in 19 minutes"
    assert told == [burst]


def test_posts_without_a_timestamp_have_no_latency() -> None:
    """Kafka has none of some records: None in the oldest format, -1 from some producers."""

    async def run() -> None:
        bench = Bench()
        bench.delivery.acknowledge.set()
        bench.pipeline.go.release()
        nothing: Any = None
        bench.ledger.add([Mail(b"", timestamp=at) for at in (1_700_000_000_000, -1, nothing)])
        await bench.sift()
        page = bench.metrics.render().decode()
        assert "newsift_latency_seconds_count 1.0" in page

    asyncio.run(run())
