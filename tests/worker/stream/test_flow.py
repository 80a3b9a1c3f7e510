import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
from aiokafka import TopicPartition

from tests.worker.small_encoder import Mail, mail, seed_set, small_encoder, value
from tests.worker.stream.fake_clients import PATIENCE_S, FakeConsumer, ended, met
from worker.config import TopicsConfig
from worker.kafka.producer import ProducerRecord
from worker.match.matcher import prepare_index
from worker.match.near import NearWatch
from worker.match.pipeline import Outcome, Pipeline, timestamps_of
from worker.match.records import MatchRecord, Record
from worker.metrics.registry import Metrics
from worker.seeds.automatic import AutomaticThresholds, ThresholdRules
from worker.stream.flow import Flow, Matching, Output, group_matches
from worker.stream.ledger import Batch, Ledger
from worker.stream.partitions import Positions, Tenures

PLACE = TopicPartition("tweets", 0)


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
        return Outcome(len(messages), timestamps_of(messages), records)


class Bench:
    def __init__(self, ledger: Ledger | None = None) -> None:
        self.metrics, self.ledger = Metrics(), Ledger(3) if ledger is None else ledger
        self.consumer, self.pipeline = FakeConsumer(), FakePipeline()
        self.sent, self.acknowledge = list[ProducerRecord](), asyncio.Event()
        seeds = seed_set()
        self.tenures = Tenures(30)
        self.tenures.assign({0}, {})
        positions = Positions(
            self.consumer, "tweets", self.ledger, self.tenures, self.metrics, ended
        )
        self.commit = positions.commit
        pipeline: Any = self.pipeline
        delivery: Any = SimpleNamespace(deliver=self.deliver)
        self.flow = Flow(
            Matching(pipeline, NearWatch(AutomaticThresholds(small_encoder(), ThresholdRules()))),
            lambda: seeds,
            Output(delivery, TopicsConfig()),
            self.ledger,
            self.tenures,
            self.metrics,
        )
        prepare_index(seeds)
        self.flow.near.prepare(seeds)

    async def deliver(self, letters: Sequence[ProducerRecord], _: object) -> None:
        self.sent += letters
        await self.acknowledge.wait()

    async def sift(self) -> None:
        batch = await self.ledger.next()
        outcome = await self.flow.match(batch)
        await self.flow.deliver(batch, outcome)
        self.flow.finish(batch, outcome)

    def post(self, offset: int) -> "asyncio.Task[None]":
        self.ledger.add([Mail(b"", offset=offset)])
        return asyncio.ensure_future(self.sift())


async def test_the_event_loop_is_free_while_the_model_works() -> None:
    """An agent that blocks the loop loses its heartbeats."""
    bench = Bench()
    bench.acknowledge.set()
    work = bench.post(0)
    await met(bench.pipeline.running.is_set)
    bench.pipeline.go.release()  # by the loop, while the pipeline runs
    await work
    assert bench.ledger.unfinished == 0


async def test_nothing_is_committed_before_the_output_is_acknowledged() -> None:
    """Faust's send and its sinks hand back before anything is delivered."""
    bench = Bench()
    bench.pipeline.go.release()
    work = bench.post(0)
    await met(lambda: bench.sent)
    await bench.commit()
    assert bench.consumer.commits == []
    bench.acknowledge.set()
    await work
    await bench.commit()
    assert bench.consumer.commits == [{PLACE: 1}]


async def test_a_batch_waits_until_it_is_open_which_tenures_go_on() -> None:
    bench = Bench()
    bench.acknowledge.set()
    bench.pipeline.go.release()
    bench.tenures.revoke()
    work = bench.post(0)
    await asyncio.sleep(0.01)
    assert not bench.pipeline.running.is_set()
    bench.tenures.assign({0}, {})
    await work
    assert bench.ledger.unfinished == 0


async def test_a_batch_of_an_older_assignment_is_neither_sent_nor_committed() -> None:
    bench = Bench()
    work = bench.post(0)
    await met(bench.pipeline.running.is_set)
    bench.ledger.drop()
    bench.pipeline.go.release()
    await work
    await bench.commit()
    assert bench.sent == []
    assert bench.consumer.commits == []


async def test_the_posts_of_a_batch_of_an_older_assignment_are_not_read_on() -> None:
    bench, portions = Bench(), 0

    def read_for_ever(*arguments: Any) -> Outcome:
        nonlocal portions
        go_on = arguments[-1]
        while True:
            portions += 1
            go_on()
            bench.pipeline.running.set()
            time.sleep(0.001)
            assert portions < 1000 * PATIENCE_S

    bench.pipeline.run = read_for_ever  # type: ignore[method-assign, assignment]
    bench.ledger.add([Mail(b"", offset=0)])
    work = asyncio.ensure_future(bench.sift())
    await met(bench.pipeline.running.is_set)
    bench.ledger.drop()
    await work
    assert bench.flow.portions_read == portions
    assert bench.sent == []


async def test_matches_are_grouped_in_the_order_of_the_offsets_though_batches_overtake() -> None:
    """The second batch is matched first, yet its copy joins what the first one has."""
    bench = Bench()
    bench.acknowledge.set()
    slow, fast = threading.Event(), threading.Event()
    whole = Pipeline(small_encoder())

    def matched(messages: Sequence[Any], _: object, now: Any, *__: object) -> Outcome:
        if messages[0].offset == 0:
            assert slow.wait(PATIENCE_S)
            return whole.run(messages, seed_set(), now)
        result = whole.run(messages, seed_set(), now)
        fast.set()
        return result

    bench.pipeline.run = matched  # type: ignore[method-assign, assignment]
    for offset in range(2):
        bench.ledger.add([mail(str(offset), "storm flood river city", offset)])
    works = [asyncio.ensure_future(bench.sift()) for _ in range(2)]
    await met(fast.is_set)
    await asyncio.sleep(0.01)
    assert bench.sent == []
    slow.set()
    await asyncio.gather(*works)
    rows = sorted((json.loads(letter.value or b"") for letter in bench.sent),
                  key=lambda row: str(row["post"]["id"]))  # fmt: skip
    assert [row["new"] for row in rows] == [True, False]
    assert {row["group"] for row in rows} == {rows[0]["matches"][0]["match_id"]}


async def test_posts_without_a_timestamp_have_no_latency() -> None:
    """Kafka has none of some records: None in the oldest format, -1 from some producers."""
    bench = Bench()
    bench.acknowledge.set()
    bench.pipeline.go.release()
    nothing: Any = None
    bench.ledger.add([Mail(b"", timestamp=at) for at in (1_700_000_000_000, -1, nothing)])
    await bench.sift()
    page = bench.metrics.render().decode()
    assert "newsift_latency_seconds_count 1.0" in page


FLOOD, COPY, RAID = "storm flood river city", "flood storm! river, city", "police fire city police"


def post(name: str, text: str, partition: int = 0) -> Mail:
    return Mail(value(id=name, text=text), partition=partition)


def grouped(tenures: Tenures, *posts: Mail) -> Outcome:
    outcome = Pipeline(small_encoder()).run(posts, seed_set(), lambda: "now")
    group_matches(Batch(0, posts), outcome, tenures)
    return outcome


def groups(outcome: Outcome) -> list[tuple[str, str, bool]]:
    result = [msgspec.json.decode(each.value or b"", type=MatchRecord) for each in outcome.records]
    return [(each.post.id, str(each.group), each.new is True) for each in result]


def named(outcome: Outcome, at: int) -> str:
    best: str = json.loads(outcome.records[at].value or b"")["matches"][0]["match_id"]
    return best


def test_each_partition_has_its_own_groups_in_every_batch() -> None:
    tenures = Tenures(30)
    tenures.assign({0, 1}, {})
    first = grouped(
        tenures, post("1", FLOOD), post("2", FLOOD, 1), Mail(b"no post"), post("3", COPY)
    )
    assert first.records[2].kind == "rejected"
    del first.records[2]
    a, b = named(first, 0), named(first, 1)
    assert groups(first) == [("1", a, True), ("2", b, True), ("3", a, False)]
    second = grouped(tenures, post("4", COPY, 1), post("5", RAID))
    assert groups(second) == [("4", b, False), ("5", named(second, 1), True)]


def test_posts_and_stories_are_counted_by_event() -> None:
    posts = [post("1", FLOOD), post("2", COPY), post("3", RAID)]
    outcome = grouped(Tenures(0), *posts)
    posts_by_event, stories = Counter[str](), Counter[str]()
    for record in outcome.records:
        row = json.loads(record.value or b"")
        events = {match["event"] for match in row["matches"]}
        posts_by_event.update(events)
        stories.update(events if row["new"] else ())
    assert outcome.posts_by_event == posts_by_event
    assert outcome.stories == stories


def test_grouping_adds_two_keys_to_a_record_and_changes_no_other() -> None:
    mail = post("1", FLOOD)
    plain = Pipeline(small_encoder()).run([mail], seed_set(), lambda: "now").records[0]
    record = grouped(Tenures(0), mail).records[0]
    row = json.loads(record.value or b"")
    assert row == json.loads(plain.value or b"") | {"group": row["group"], "new": True}
    whole = msgspec.json.decode(record.value or b"", type=MatchRecord)
    assert msgspec.json.encode(whole) == record.value
