import numpy as np
import pytest

from bench.crises import CrisisPosts, exclude_background
from bench.profiles import HEADER, RATES, ROWS, mean_figures
from encoder.errors import InputError
from tests.encoder.small_model import background
from tests.worker.small_encoder import small_encoder

NEWS, ON, OFF = 60, 20, 5


def crisis() -> CrisisPosts:
    enc = small_encoder()
    seeds = enc.articles([("storm", "flood river city")])
    posts = enc.posts(background(NEWS + ON + OFF))
    read = enc.background.read
    return CrisisPosts("an event", seeds, read, read, posts, news=NEWS, on=ON)


def test_nothing_that_judges_was_learned_from() -> None:
    draw = crisis().draw(11, 0)
    assert sorted([*draw.stream, *draw.news, *draw.on]) == list(range(NEWS + ON))
    assert draw.is_on(draw.stream).sum() == 3
    assert (draw.news < NEWS).all()
    assert (draw.on >= NEWS).all()
    assert not draw.is_on(crisis().draw(0, 0).stream).any()
    with pytest.raises(InputError, match="an event: 20 posts, 30 are needed"):
        crisis().draw(3, 0)


def test_precision_is_that_of_a_stream_counted_out() -> None:
    draw = crisis().draw(0, 1)
    scores = np.random.default_rng(2).permutation(NEWS + ON + OFF).astype(np.float32)
    cut = sorted(scores[draw.on])[-16]
    on, news = 16 / ON, sum(score >= cut for score in scores[draw.news]) / len(draw.news)
    counted = 1_000 * on / (1_000 * on + 49_000 * news)
    assert draw.precision(scores, 50) == pytest.approx(counted)


def test_a_post_of_the_background_judges_nothing() -> None:
    whole = crisis()
    again = exclude_background(whole.background[:9], whole.background)
    assert len(again) == 0
    assert len(exclude_background(whole.posts, whole.background[:0])) == NEWS + ON + OFF


@pytest.mark.parametrize("row", ROWS)
def test_every_method_is_judged_by_every_figure(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.profiles.RATE", 0.1)
    monkeypatch.setitem(ROWS, row, (ROWS[row][0], None if ROWS[row][1] is None else 11))
    figures = dict(zip(HEADER[2:], mean_figures(crisis(), row, 2, lambda _: None), strict=True))
    precision = [figures[f"1 in {rate}"] for rate in RATES]
    assert precision == sorted(precision, reverse=True)
    assert all(0 <= figures[name] <= 100 for name in ("off topic", "recall"))
