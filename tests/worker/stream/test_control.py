"""Control on the embedded broker: read to the end, then followed; always what a dictionary says."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.learned import profile_value
from tests.worker.small import ARTICLES
from tests.worker.stream.seeding import TOPIC, Bench, becomes, met, play, shown
from worker.seeds.record import Seed
from worker.stream.control import Control

names = st.sampled_from(["a", "b", "c", "d"])
values = st.sampled_from([None, *ARTICLES.values(), "", "{"])


def wanted(changes: list[tuple[str, str | None]]) -> tuple[dict[str, str], set[str]]:
    """The articles and the refused seeds after these changes, by a dictionary."""
    latest = dict(changes)
    live = {name: value for name, value in latest.items() if value and value != "{"}
    return live, {n for n, value in latest.items() if value is not None and n not in live}


def test_an_empty_control_topic_is_ready() -> None:
    async def story(bench: Bench) -> None:
        control, _ = await bench.reader()
        assert shown(control) == ({}, set())
        await control.stop()

    play(story)


@settings(max_examples=6, deadline=None)
@given(
    st.lists(st.tuples(names, values), max_size=30),
    st.lists(st.tuples(names, values), max_size=10),
)
def test_early_and_late_readers_converge_on_what_a_dictionary_says(
    before: list[tuple[str, str | None]], after: list[tuple[str, str | None]]
) -> None:
    async def story(bench: Bench) -> None:
        await bench.publish(before)
        early, embedder = await bench.reader()
        assert shown(early) == wanted(before)
        following = asyncio.ensure_future(early.follow(embedder))
        await bench.publish(after)
        await becomes(early, wanted(before + after))
        late, _ = await bench.reader()
        assert shown(late) == wanted(before + after)
        assert late.seeds is not None
        assert early.seeds is not None
        assert late.seeds.digest == early.seeds.digest
        following.cancel()
        await early.stop()
        await late.stop()

    play(story)


def test_a_set_is_replaced_as_a_whole() -> None:
    """A batch that has begun keeps the set that it began with."""

    async def story(bench: Bench) -> None:
        control, embedder = await bench.reader()
        following = asyncio.ensure_future(control.follow(embedder))
        await bench.publish([("a", ARTICLES["flood"])])
        await becomes(control, ({"a": ARTICLES["flood"]}, set()))
        old = control.seeds
        await bench.publish([("a", ARTICLES["game"])])
        await becomes(control, ({"a": ARTICLES["game"]}, set()))
        assert old is not None
        (before,) = old.seeds
        assert isinstance(before, Seed)
        assert before.text == ARTICLES["flood"]
        assert 'newsift_seeds{state="live"} 1.0' in bench.metrics.render().decode()
        following.cancel()
        await control.stop()

    play(story)


SEEDS = {name: ARTICLES[name] for name in ("flood", "raid")}
KEY = b"profile|storm"
Told = tuple[list[str], list[str], list[str]]


def told(control: Control) -> Told:
    """The ids of what is compared with, and why the rest is not."""
    seeds = control.seeds
    assert seeds is not None
    ids = [seed.id for seed in seeds.seeds]
    return ids, [each.reason for each in seeds.stale], [each.reason for each in seeds.refused]


async def send(bench: Bench, key: bytes, value: bytes | None) -> None:
    await bench.producer.send_and_wait(TOPIC, value, key=key)


async def articles(bench: Bench) -> None:
    for name, text in SEEDS.items():
        await send(bench, name.encode(), article(text))


def article(text: str, **more: Any) -> bytes:
    return json.dumps({"text": text, "event": "storm", **more}).encode()


STEPS: list[tuple[bytes, bytes | None, Told]] = [
    (KEY, profile_value("storm", SEEDS), (["profile|storm"], [], [])),
    (b"late", article("storm music"), (["late", "profile|storm"], [], [])),
    (
        b"raid", article(SEEDS["raid"], paused=True),
        (["flood", "late"], ["seeds: 'raid' is paused"], []),
    ),
    (b"raid", article(SEEDS["raid"], title=None), (["late", "profile|storm"], [], [])),
    (KEY, b'{"event": "storm"}', (["flood", "late", "raid"], [], ["seeds: names none; name"])),
    (KEY, None, (["flood", "late", "raid"], [], [])),
]  # fmt: skip


def test_each_change_takes_effect_and_a_restart_finds_the_same() -> None:
    async def story(bench: Bench) -> None:
        await articles(bench)
        control, embedder = await bench.reader()
        following = asyncio.ensure_future(control.follow(embedder))
        for key, value, (ids, stale, refused) in STEPS:
            await send(bench, key, value)

            def stands(ids: Any = ids, stale: Any = stale, refused: Any = refused) -> bool:
                found = told(control)
                reasons = [why[:23] for why in found[2]]
                return (found[0], found[1], reasons) == (ids, stale, [w[:23] for w in refused])

            await met(stands)
            again, _ = await bench.reader()
            assert told(again) == told(control)
            assert again.seeds is not None
            assert control.seeds is not None
            assert again.seeds.digest == control.seeds.digest
            await again.stop()
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        await control.stop()

    play(story)


def test_the_log_says_once_why_one_is_stale(caplog: pytest.LogCaptureFixture) -> None:
    async def story(bench: Bench) -> None:
        await articles(bench)
        await send(bench, KEY, profile_value("storm", SEEDS, model="0" * 64))
        control, embedder = await bench.reader()
        await control.embed(embedder)
        assert b'newsift_seeds{state="stale"} 1.0' in bench.metrics.render()
        await control.stop()

    play(story)
    said = [row.getMessage() for row in caplog.records if "profile|storm" in row.getMessage()]
    assert len(said) == 1
    assert said[0].startswith("seed 'profile|storm' is stale: model: learned with '000000000000'")
