"""The script of the demo: everything once, at an even pace, away from the changes it would blur."""

from collections import Counter
from itertools import pairwise

import pytest

from newsift.cli.demo import (
    ADDED,
    AFTER,
    BEFORE,
    HARMLESS,
    POISON,
    REMOVED,
    SHORTEST,
    Script,
    as_message,
    read_posts,
    script_of,
)

POSTS = read_posts()


@pytest.fixture(params=[SHORTEST, 20.0, 60.0])
def script(request: pytest.FixtureRequest) -> Script:
    """The script at several paces."""
    return script_of(POSTS, request.param)


def test_everything_is_sent_once(script: Script) -> None:
    sent = Counter(message.value for message in script.cues)
    expected: Counter[bytes | None] = Counter([as_message(post) for post in POSTS])
    assert sent == expected + Counter(HARMLESS) + Counter(POISON)
    events = Counter(message.event for message in script.cues)
    readable = [post for post in POSTS if post.text.strip()]
    assert events[ADDED] == sum(post.event == ADDED for post in readable)
    ids = [message.id for message in script.cues if message.event]
    assert len(set(ids)) == len(ids)


def test_the_pace_is_even_and_the_same_in_every_run(script: Script) -> None:
    steps = [b.at - a.at for a, b in pairwise(script.cues)]
    assert script.cues[0].at == 0
    assert (
        max(steps) == pytest.approx(min(steps)) == pytest.approx(script.seconds / (len(steps) + 1))
    )
    assert script_of(POSTS, script.seconds) == script


def test_one_seed_comes_and_one_goes_and_both_can_be_seen(script: Script) -> None:
    assert [(c.seed, c.adds) for c in script.changes] == [(ADDED, True), (REMOVED, False)]
    for change in script.changes:
        near = [m for m in script.cues if m.event == change.seed]
        assert not [m for m in near if change.at - BEFORE <= m.at <= change.at + AFTER]
        earlier = [m for m in near if m.at < change.at]
        later = [m for m in near if m.at > change.at]
        assert min(len(earlier), len(later)) >= 3
        assert {m.live for m in earlier} == {not change.adds}
        assert {m.live for m in later} == {change.adds}
