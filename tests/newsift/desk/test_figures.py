import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newsift.desk.figures import (
    BINS,
    HEIGHT,
    MARGIN_LEFT,
    MARGIN_RIGHT,
    MAX_BARS,
    WIDTH,
    Histogram,
    hours_figure,
    score_histogram,
    scores_figure,
)
from worker.posts.times import HOUR_MS, LAST_MS

SVG = "{http://www.w3.org/2000/svg}"
START = 498_600  # hours since 1970: 2026-11-18 00:00


def bars(created: str) -> list[tuple[dict[str, float], int]]:
    rects = [each for each in ElementTree.fromstring(created).iter(f"{SVG}rect") if len(each)]
    places = [{k: float(e.attrib[k]) for k in ("x", "y", "width", "height")} for e in rects]
    titles = [each[0].text or "" for each in rects]
    counts = [int(title.rpartition(": ")[2].replace(",", "")) for title in titles]
    return list(zip(places, counts, strict=True))


def test_the_height_of_a_bar_is_its_count() -> None:
    hours = {START: 4, START + 1: 8, START + 5: 2}
    result = bars(hours_figure("ferry", hours))
    assert [count for _, count in result] == [4, 8, 2]
    unit = result[1][0]["height"] / 8
    assert [place["height"] / unit for place, _ in result] == pytest.approx([4, 8, 2], abs=0.02)
    bottom = {round(place["y"] + place["height"], 1) for place, _ in result}
    assert len(bottom) == 1


@given(st.dictionaries(st.integers(0, LAST_MS // HOUR_MS), st.integers(1, 10**6), max_size=30))
def test_every_post_is_in_one_of_few_bars(hours: dict[int, int]) -> None:
    result = bars(hours_figure("ferry", hours))
    assert sum(count for _, count in result) == sum(hours.values())
    assert len(result) <= min(MAX_BARS + 1, len(hours))
    for place, _ in result:
        assert 0 <= place["x"] <= place["x"] + place["width"] <= WIDTH
        assert 0 <= place["y"] <= place["y"] + place["height"] <= HEIGHT


def test_a_stream_of_minutes_has_a_bar_a_minute() -> None:
    minutes = {60 * START + n: n + 1 for n in range(7)}
    created = hours_figure("ferry", {START: 28}, minutes)
    assert [count for _, count in bars(created)] == [1, 2, 3, 4, 5, 6, 7]
    assert "posts a minute" in created
    assert "28 posts from 2026-11-18 00:00 to 2026-11-18 00:07 UTC" in created
    longer = minutes | {60 * START + 120: 1}
    assert len(bars(hours_figure("ferry", {START: 28, START + 2: 1}, longer))) == 2


@given(st.text(max_size=300))
def test_any_name_makes_a_plain_svg(event: str) -> None:
    created = hours_figure(event, {START: 1})
    root = ElementTree.fromstring(created)
    assert {each.tag.removeprefix(SVG) for each in root.iter()} <= {
        "svg", "title", "desc", "style", "rect", "path", "text",
    }  # fmt: skip
    assert re.search(r"[\x00-\x09\x0b-\x1f\u202a-\u202e]", created) is None


@given(st.lists(st.floats(-1, 1), max_size=200))
def test_bins_are_those_of_numpy(scores: list[float]) -> None:
    result = score_histogram(scores)
    assert result.total == len(scores)
    inside = np.clip(np.array(scores), 0, 1 - 1e-9)
    expected = np.bincount((inside * BINS).astype(int), minlength=BINS)
    assert list(result.counts) == expected.tolist()
    assert result.edges[0] == 0
    assert result.edges[-1] == 1


@given(st.floats(0, 1))
def test_the_threshold_is_drawn_at_its_score(threshold: float) -> None:
    created = scores_figure("ferry", score_histogram([0.5]), None, [threshold])
    cut = next(e for e in ElementTree.fromstring(created).iter() if e.get("class") == "cut")
    result = re.match(r"M([\d.]+) ", cut.attrib["d"])
    assert result
    share = (float(result[1]) - MARGIN_LEFT) / (WIDTH - MARGIN_LEFT - MARGIN_RIGHT)
    assert share == pytest.approx(threshold, abs=1e-4)


def test_the_background_is_drawn_as_shares() -> None:
    background = Histogram([0, 0.25, 0.5, 0.75, 1], [30, 10, 0, 0])
    matches = Histogram([0, 0.25, 0.5, 0.75, 1], [0, 0, 1, 1])
    created = scores_figure("ferry", matches, background, [0.4])
    root = ElementTree.fromstring(created)
    outline = next(e for e in root.iter() if e.get("class") == "outline").attrib["d"]
    heights = [float(v) for v in re.findall(r"V([\d.]+)", outline)]
    bottom = heights[-1]
    tall = [bottom - height for height in heights[:-1]]
    assert len(tall) == 2  # it ends with its last post
    assert tall[0] / tall[1] == pytest.approx(3, abs=0.01)
    bars = [float(e.attrib["height"]) for e in root.iter(f"{SVG}rect") if len(e)]
    assert bars == pytest.approx([tall[0] * (0.5 / 0.75)] * 2, abs=0.02)
    assert "40 posts of the background" in created
