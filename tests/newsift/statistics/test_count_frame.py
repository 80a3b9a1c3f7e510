from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from newsift.statistics.count_draw import FramePosts, draw_posts, frame_key, plan_strata
from newsift.statistics.count_frame import CountFrame, count_series, frames_of
from newsift.statistics.counts import Tally, count_in_period, count_posts
from newsift.statistics.labels import CountDraw, Label, QueueName, StratumName, Verdict
from worker.posts.outcome import Post
from worker.posts.times import DAY_MS, HOUR_MS, rfc3339

DAYS = [n % 3 for n in range(240)]  # of each match
STORY = list(range(90))  # these matches say the same
NEAR, KEPT = 900, 200
NEAR_HOURS = {day * DAY_MS + 5 * HOUR_MS: 100 * (day + 2) for day in range(3)}  # 900


def frame_posts(nonce: str = "a") -> FramePosts:
    keys = np.array([frame_key(("x", str(n)), nonce) for n in range(len(DAYS))], np.uint64)
    groups = np.where(np.isin(np.arange(len(DAYS)), STORY), np.uint64(7), keys)
    scores = np.linspace(0.9, 0.5, len(DAYS), dtype=np.float32)
    times = np.array(DAYS) * DAY_MS + np.arange(len(DAYS))
    return FramePosts.of(keys, scores, times, groups)


def new_frame(nonce: str = "a", labels: int = 100) -> CountFrame:
    cut, strata = plan_strata(frame_posts(nonce), NEAR, KEPT, labels)
    return CountFrame(nonce, 0, 3 * DAY_MS, cut, strata, ("ab", "cd"), ())


def answers(frame: CountFrame, by: str = "ann", **changes: Any) -> list[Label]:
    """A label for each question: on for the story and for even numbers."""
    posts = frame_posts(frame.nonce)
    numbers = {frame_key(("x", str(n)), frame.nonce): n for n in range(len(DAYS))}
    labels = []
    for drawn in draw_posts(posts, frame.divide(posts), frame.planned_of(KEPT)):
        is_near = drawn.stratum == "near"
        number = 10_000 + drawn.number if is_near else numbers[int(posts.keys[drawn.number])]
        time = drawn.number % 3 * DAY_MS if is_near else int(posts.times[drawn.number])
        size, planned = frame.strata[drawn.stratum]
        verdict: Verdict = "on" if drawn.stratum == "story" or not number % 2 else "off"
        draw = CountDraw(drawn.stratum, drawn.posts, time, frame.frozen)
        label = Label(
            verdict, "storm", Post(str(number), "x", "rain"), by, rfc3339(9), "count",
            planned / size, 0.5, "ab", "cd", QueueName(frame.nonce, rfc3339(frame.until)), draw,
        )  # fmt: skip
        labels.append(structs.replace(label, **changes))
    return labels


def tally(size: int, labels: Iterable[Label]) -> Tally:
    verdicts = [label.label for label in labels]
    return Tally(size, *(verdicts.count(name) for name in ("on", "off", "unsure")))


def test_the_plan_asks_for_the_story_and_divides_what_is_left() -> None:
    frame = new_frame()
    assert frame.strata["story"] == (90, 1)
    assert {name: posts for name, (posts, _) in frame.strata.items()} == {
        "story": 90, "upper": 75, "lower": 75, "near": NEAR
    }  # fmt: skip
    assert frame.planned == pytest.approx(100, abs=1)
    assert (frame.matches, frame.near) == (240, NEAR)
    assert new_frame(labels=2_000).strata["near"] == (NEAR, KEPT)


def test_labels_name_their_frame_and_the_newest_comes_first() -> None:
    frame, newer = new_frame(), replace(new_frame("b"), until=4 * DAY_MS)
    labels = answers(frame)
    given = [structs.replace(label, drawn="given") for label in answers(new_frame("c"))]
    first, second = frames_of([*labels, *given, *answers(newer)[:3]])
    assert (first.nonce, len(first.posts), first.is_complete) == ("b", 3, False)
    assert replace(second, posts=()) == frame
    assert second.is_complete
    assert frames_of([]) == []


@pytest.mark.parametrize("other", ["off", "unsure"])
def test_two_judges_of_one_draw_count_as_one(other: Verdict) -> None:
    """Where they differ the post is unsure, which counts as on at the upper end."""
    ann, ben = answers(new_frame()), answers(new_frame(), "ben", label=other)
    (frame,) = frames_of([*ann, *ben])
    assert len(frame.posts) == frame.planned
    verdicts = {post.label.post_id: post.verdict for post in frame.posts}
    assert [verdicts[label.post_id] for label in ann] == [
        label.label if label.label == other else "unsure" for label in ann
    ]


def test_labels_that_disagree_about_the_frame_are_left_out() -> None:
    labels = answers(new_frame())
    assert labels[0].count
    other = structs.replace(labels[0].count.frame, cut=0.1)
    odd = structs.replace(labels[-1], count=structs.replace(labels[0].count, frame=other))
    (frame,) = frames_of([*labels[:-1], structs.replace(odd, at=rfc3339(10))])
    assert len(frame.posts) == len(labels) - 1


def strata_of(labels: Sequence[Label], name: StratumName) -> list[Label]:
    return [label for label in labels if label.count and label.count.stratum == name]


def test_all_posts_are_counted_by_the_labels_of_their_strata() -> None:
    labels = answers(new_frame())
    (frame,) = frames_of(labels)
    series = count_series(frame, frame_posts(), NEAR_HOURS, DAY_MS)
    wholes = {n: tally(size, strata_of(labels, n)) for n, (size, _) in frame.strata.items()}
    lotteries = [whole for name, whole in wholes.items() if name != "story"]
    assert series.total.estimate == count_posts([*lotteries, Tally(90, 90)], False)
    assert (series.total.matches, series.total.near, series.stopped) == (240, NEAR, False)
    assert series.missing == 0
    assert [period.start for period in series.periods] == [0, DAY_MS, 2 * DAY_MS]
    for day, period in enumerate(series.periods):
        pairs = []
        for name, size in (("upper", 25), ("lower", 25), ("near", 100 * (day + 2))):
            mine = [label for label in strata_of(labels, name)  # type: ignore[arg-type]
                    if label.count and label.count.timestamp // DAY_MS == day]  # fmt: skip
            pairs.append((wholes[name], tally(size, mine)))  # type: ignore[index]
        assert (period.matches, period.near) == (80, 100 * (day + 2))
        assert period.estimate == count_in_period(pairs, False, [Tally(30, 30)])


def test_labels_that_stop_early_say_less_and_what_is_missing() -> None:
    labels = answers(new_frame())
    (all_of_it,), (few,) = frames_of(labels), frames_of(labels[1:20])
    known = count_series(all_of_it, frame_posts(), NEAR_HOURS, DAY_MS).total.estimate
    series = count_series(few, frame_posts(), NEAR_HOURS, DAY_MS)
    low, _, high = series.total.estimate
    assert series.stopped
    assert low < known[0]
    assert high > known[2] + 90  # the story may be on or off
    by_stratum = [len(strata_of(labels[1:20], name)) for name in ("upper", "lower", "near")]
    assert series.missing == 1 + sum(max(0, 10 - count) for count in by_stratum)


def test_what_was_lost_since_is_in_the_total_alone() -> None:
    (frame,) = frames_of(answers(new_frame()))
    none = np.zeros(0, np.int64)
    gone = FramePosts(none.astype(np.uint64), none.astype(np.float32), none, none.astype(np.uint64))
    series = count_series(frame, gone, {}, HOUR_MS)
    whole = count_series(frame, frame_posts(), NEAR_HOURS, HOUR_MS)
    assert series.total == whole.total
    assert series.periods == ()
    assert len(whole.periods) == 2 * 24 + 6  # empty hours too


def test_a_clock_that_jumps_makes_no_endless_series() -> None:
    (frame,) = frames_of(answers(new_frame()))
    posts = frame_posts()
    posts.times[:2] = -1, 2**62
    series = count_series(frame, posts, {}, HOUR_MS)
    assert 3 < len(series.periods) < 20
    assert sum(period.matches for period in series.periods) == 240
