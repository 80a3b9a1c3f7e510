"""A control topic that goes away, comes back, or is another one, under a worker that reads it."""

import asyncio
import logging

import pytest

from tests.worker.small import ARTICLES
from tests.worker.stream.seeding import TOPIC, Bench, becomes, following, met, play, shown
from worker.errors import AccessError
from worker.stream import control as control_module

FLOOD, GAME = ("a", ARTICLES["flood"]), ("b", ARTICLES["game"])


@pytest.fixture(autouse=True)
def attentive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look more often than a worker does."""
    monkeypatch.setattr(control_module, "LOOK_S", 0.02)
    monkeypatch.setattr(control_module, "POLL_MS", 20)


def test_a_topic_made_again_with_other_seeds_is_read_anew() -> None:
    """As many records as before: only its id tells the one from the other."""

    async def story(bench: Bench) -> None:
        await bench.publish([FLOOD])
        control, embedder = await bench.reader()

        async def life(bench: Bench) -> None:
            await bench.delete()
            await bench.create()
            await bench.publish([GAME])
            await becomes(control, ({"b": ARTICLES["game"]}, set()))
            await met(lambda: not control.lost)

        await following(control, embedder, life, bench)

    play(story)


def test_a_deleted_topic_holds_the_posts_up_and_does_not_come_back_by_itself() -> None:
    async def story(bench: Bench) -> None:
        await bench.publish([FLOOD])
        control, embedder = await bench.reader()

        async def life(bench: Bench) -> None:
            await bench.delete()
            await met(lambda: control.lost)
            assert control.lost == f"the control topic {TOPIC} is gone"
            await asyncio.sleep(1)
            assert TOPIC not in await bench.admin.list_topics()

        await following(control, embedder, life, bench)

    play(story)


def test_a_topic_that_came_back_empty_holds_them_up_until_it_has_seeds_again() -> None:
    async def story(bench: Bench) -> None:
        await bench.publish([FLOOD])
        control, embedder = await bench.reader()

        async def life(bench: Bench) -> None:
            await bench.delete()
            await bench.create()
            await met(lambda: "made again and is empty" in control.lost)
            await becomes(control, ({}, set()))
            await bench.publish([GAME])
            await met(lambda: not control.lost)
            assert shown(control) == ({"b": ARTICLES["game"]}, set())
            assert bench.held[-1] == ""

        await following(control, embedder, life, bench)

    play(story)


def test_posts_go_on_with_the_new_seeds_and_not_before() -> None:
    """Let go any sooner, a batch that waits would meet the seeds of the topic that is gone."""

    async def story(bench: Bench) -> None:
        await bench.publish([FLOOD])
        control, embedder = await bench.reader()
        seen: list[tuple[str, object]] = []
        control._held = lambda why: seen.append((why, shown(control)))

        async def life(bench: Bench) -> None:
            await bench.delete()
            await met(lambda: control.lost)
            await bench.create()
            await bench.publish([GAME])
            await met(lambda: not control.lost)
            assert seen[-1] == ("", ({"b": ARTICLES["game"]}, set()))

        await following(control, embedder, life, bench)

    play(story)


@pytest.mark.parametrize("changes", [[], [FLOOD, ("a", None)]])
def test_where_there_were_no_seeds_an_empty_topic_loses_none(
    changes: list[tuple[str, str | None]],
) -> None:
    async def story(bench: Bench) -> None:
        await bench.publish(changes)
        control, embedder = await bench.reader()

        async def life(bench: Bench) -> None:
            await bench.delete()
            await met(lambda: control.lost)
            await bench.create()
            await met(lambda: not control.lost)
            assert shown(control) == ({}, set())

        await following(control, embedder, life, bench)

    play(story)


def test_a_topic_that_came_back_unfit_ends_the_worker() -> None:
    async def story(bench: Bench) -> None:
        await bench.publish([FLOOD])
        control, embedder = await bench.reader()
        task = asyncio.ensure_future(control.follow(embedder))
        bench.unfit = AccessError("topic seed-articles: partitions is 4, must be 1")
        await bench.delete()
        await bench.create(partitions=4)
        with pytest.raises(AccessError, match="partitions is 4"):
            await asyncio.wait_for(task, 20)
        await control.stop()

    play(story)


def test_each_refusal_is_logged_once_and_few_at_a_time(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "newsift.control")

    async def story(bench: Bench) -> None:
        await bench.publish([(f"bad{n:02}", "{") for n in range(25)])
        control, embedder = await bench.reader()

        async def life(bench: Bench) -> None:
            await bench.publish([("bad00", ""), FLOOD, GAME])
            await met(lambda: len(control.seeds or ()) == 2)

        await following(control, embedder, life, bench)

    play(story)
    said = [record.getMessage() for record in caplog.records]
    assert sum("is refused: value: bad JSON" in line for line in said) == 10
    assert sum("15 seeds more are refused or stale" in line for line in said) == 1
    assert sum("is refused: text: missing" in line for line in said) == 1
    assert len(said) == 12
