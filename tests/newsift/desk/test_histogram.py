import numpy as np
import pytest

from encoder.model.weights import F32
from newsift.desk.scoring import make_measure
from newsift.desk.views.events import promise_row
from newsift.desk.views.scores import figure_fields
from newsift.operations.model_context import ModelContext
from newsift.statistics.labels import Label, Verdict
from newsift.statistics.queues import is_certify_post
from tests.newsift.desk.scene import (
    EVENT,
    HOUR,
    HOURS,
    NOW,
    Town,
    scene,
    seeds_of,
    town,
    view_of,
    without_workers,
)
from tests.worker.learned import profile_of
from worker.posts.outcome import Post
from worker.seeds.background import split_background

FAR = 1e-6


def true_scores(here: Town) -> F32:
    enc = here.context.enc
    rows = enc.articles([("", text) for text in SEED_TEXTS])
    return np.array([enc.posts([post.text]).similarity(rows).max() for post, _ in here.posts])


SEED_TEXTS = [str(record["text"]) for record in seeds_of().values()]


def label(post: Post, text: Verdict, by: str = "anna", drawn: str = "certify") -> Label:
    at = "2026-12-31T10:00:00Z"
    return Label(text, EVENT, post, by, at, drawn, 0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("threshold", [{"threshold": 0.5}, {}])
def test_the_hourly_rates_are_those_of_all_posts(
    context: ModelContext, threshold: dict[str, float]
) -> None:
    here, now = town(context), view_of(context, seeds_of(**threshold))
    here.run(now.seeds, here.posts)
    measure = make_measure(context, now, EVENT)
    shown = scene(here, now, answers=[here.near(measure, now.seeds)])
    data, scores = figure_fields(shown), true_scores(here)
    rates = dict(zip(data["edges"], data["hourly"], strict=True))
    before = [(edge, rate) for edge, rate in rates.items() if rate is not None]
    assert [e for e in data["edges"] if e >= data["floor"]] == [edge for edge, _ in before]
    low, top = data["thresholds"]
    assert 0 < data["floor"] < low
    assert (low < top) == (not threshold)
    for edge, rate in before:
        if not low < edge < top:  # there a match is data with the score of the seed that it reaches
            assert rate == pytest.approx((scores >= edge).sum() / HOURS)
    assert sum(data["bins"]["matches"]) == data["matched"] >= (scores >= top).sum()
    assert data["hours"] == pytest.approx(HOURS)
    alone = figure_fields(without_workers(shown))
    assert alone["floor"] is None
    assert alone["messages"] == ["worker 127.0.0.1:1: tells of no near misses"]
    assert [rate for rate in alone["hourly"] if rate is not None] == [
        rate for edge, rate in before if edge >= top
    ]


def test_the_shares_of_the_background_are_those_of_a_slow_loop(context: ModelContext) -> None:
    here, now = town(context), view_of(context, seeds_of())
    data = figure_fields(scene(here, now))
    rows = context.enc.articles([("", text) for text in SEED_TEXTS])
    best = [float(context.background[n : n + 1].similarity(rows).max())
            for n in range(len(context.background))]  # fmt: skip
    for edge, share in zip(data["edges"], data["background"], strict=True):
        assert share == pytest.approx(1000 * np.mean([s >= edge for s in best]), abs=1000 / 400)
    assert sum(data["bins"]["background"]) == data["background_posts"] == len(best)
    assert data["is_automatic"]
    assert data["automatic"] == pytest.approx(data["thresholds"])


def test_rates_below_an_old_threshold_count_from_its_change(context: ModelContext) -> None:
    here, half = town(context), 450
    high, low = (view_of(context, seeds_of(threshold=t)) for t in (0.5, 0.3))
    here.run(high.seeds, here.posts[:half])
    here.run(low.seeds, here.posts[half:])
    data, scores = figure_fields(scene(here, low)), true_scores(here)
    rates = dict(zip(data["edges"], data["hourly"], strict=True))
    assert rates[0.6] == pytest.approx((scores >= 0.6).sum() / HOURS)
    last = max(at for (_, at), s in zip(here.posts[:half], scores, strict=False) if s >= 0.5)
    since = sum(s >= 0.4 for s in scores[half:])
    assert rates[0.4] == pytest.approx(since / ((NOW - last) / HOUR), rel=FAR)


def test_a_profile_is_measured_by_the_other_half_of_the_background(context: ModelContext) -> None:
    seeds = {name: ("", str(record["text"])) for name, record in seeds_of().items()}
    profile = profile_of(context.enc, EVENT, seeds)
    promise = {"precision": 0.8, "confidence": 0.9, "rate": 0.001}
    record = profile.record() | {"threshold": 0.55, "promise": promise}
    now = view_of(context, seeds_of() | {profile.id: record})
    here = town(context)
    here.run(now.seeds, here.posts)
    data = figure_fields(scene(here, now))
    assert (data["state"], data["compared"]) == ("in force", 1)
    assert data["background_posts"] == len(split_background(context.background)[1])
    assert data["promise"] == {
        "precision": 0.8, "confidence": 0.9, "threshold": 0.55, "lapsed": "",
    }  # fmt: skip
    assert "passed in the last hour" in (promise_row(now.events[EVENT], 0.0001) or {})["lapsed"]
    broken = record | {"promise": promise | {"precision": "high"}}
    odd = view_of(context, seeds_of() | {profile.id: broken})
    assert promise_row(odd.events[EVENT], None) is None


def test_labels_stand_at_their_scores_and_only_drawn_ones_estimate_a_share(
    context: ModelContext,
) -> None:
    here, now = town(context), view_of(context, seeds_of(threshold=0.3))
    here.run(now.seeds, here.posts)
    scores = {post.id: s for (post, _), s in zip(here.posts, true_scores(here), strict=True)}
    above = sorted((p for p, _ in here.posts if scores[p.id] >= 0.3), key=lambda p: -scores[p.id])
    drawn = [post for post in above if is_certify_post(("plain", post.id))]
    below = next(post for post, _ in here.posts if scores[post.id] < 0.1)
    labels = [label(post, "off" if n % 5 == 4 else "on") for n, post in enumerate(drawn)]
    labels += [label(drawn[0], "off", "ben", "given"), label(below, "unsure", "ben", "learn")]
    data = figure_fields(scene(here, now, labels))
    marks = {(round(score, 5), text) for score, text in data["marks"]}
    assert len(data["marks"]) == len(drawn) + 1
    assert (round(float(scores[below.id]), 5), "unsure") in marks
    assert (round(float(scores[drawn[0].id]), 5), "unsure") in marks  # two people do not agree
    last = data["summaries"][-1]
    # The near miss lies below them.
    assert (last["random_labels"], last["share"]) == (
        len(drawn),
        None,
    )
    lowest = next(each for each in reversed(data["summaries"]) if each["share"])
    on = [n % 5 != 4 for n, post in enumerate(drawn) if scores[post.id] >= lowest["least"] - FAR]
    assert lowest["share"][1] == pytest.approx(np.mean(on))
    assert data["lowest_covered"] == pytest.approx(min(scores[post.id] for post in drawn), abs=FAR)


def test_an_event_without_an_active_seed_has_an_empty_figure(context: ModelContext) -> None:
    stale = profile_of(context.enc, EVENT, {"old": ("", "storm flood")})
    data = figure_fields(scene(town(context), view_of(context, {stale.id: stale.record()})))
    assert (data["compared"], data["thresholds"], data["state"]) == (0, [], "stale")
