"""Control on the embedded broker: read to the end, then followed; always what a dictionary says."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.small import ARTICLES
from tests.worker.stream.seeding import Bench, becomes, play, shown
from worker.seeds.record import Seed

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
