"""What `newsift bench background` counts, against loops."""

import numpy as np
import pytest

import bench.background
from bench.background import backgrounds, event_part, outcome, passes_of
from encoder.embeddings import thresholds
from tests.bench.test_profiles import scene
from worker.match.drift import HIGH

RATE = 0.1


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """As few posts as the small scene has want a rate that they can tell."""
    monkeypatch.setattr(bench.background, "RATE", RATE)


def test_passes_are_counted_post_by_post() -> None:
    whole = scene()
    articles, news = whole.posts[:9], whole.posts[20:]
    row = passes_of("news", "own", articles, whole.background, news)
    cuts, scores = thresholds(whole.background, articles, RATE), news.similarity(articles)
    passes = [sum(score >= cut for score in column) * 1000 / len(news)
              for column, cut in zip(scores.T, cuts, strict=True)]  # fmt: skip
    assert row.mean == pytest.approx(sum(passes) / 9)
    assert min(passes) <= row.tenth <= row.mean <= row.ninetieth <= max(passes)
    (many,) = thresholds(whole.background, articles[3:4], HIGH)
    assert row.most >= (high := sum(score >= many for score in scores[:, 3]) / len(news)) > 0
    one = passes_of("news", "own", articles[3:4], whole.background, news)
    assert [one.high, one.most] == pytest.approx([high, high])


def test_posts_that_score_high_are_left_out_of_the_background() -> None:
    draw = scene().draw(11, 0)
    shipped, every, *fewer = backgrounds(draw)
    assert len(shipped) == len(draw.scene.background)
    assert len(every) == len(draw.stream)
    (cut,) = thresholds(draw.scene.background, draw.scene.seeds, RATE)
    scores = draw.scene.posts[draw.stream].similarity(draw.scene.seeds)[:, 0]
    for kept, factor in zip(fewer, (1.1, 1.2, 1.3), strict=True):
        assert len(kept) == sum(score < np.float32(factor) * cut for score in scores)


def test_what_reaches_is_counted_among_those_that_judge() -> None:
    draw = scene().draw(11, 0)
    (cut,) = thresholds(draw.scene.background, draw.scene.seeds, RATE)
    scores = draw.scene.posts.similarity(draw.scene.seeds)[:, 0]
    news, on = outcome(draw, draw.scene.background)
    assert news == pytest.approx(1000 * sum(scores[draw.news] >= cut) / len(draw.news))
    assert on == pytest.approx(sum(scores[draw.on] >= cut) / len(draw.on))


def test_the_table_has_a_row_for_every_rarity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.background, "RARE", (0, 11))
    part = event_part([scene()], 2, lambda _: None)
    assert [row[0] for row in part.rows] == ["none", "1 in 11"]
    assert {len(row) for row in part.rows} == {len(part.header)}
