"""Scores beside the background: each is in its bin, and the threshold stands where it is."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newsift.desk.figures import (
    BINS,
    LEFT,
    RIGHT,
    WIDTH,
    Histogram,
    histogram,
    scores_figure,
    ticks,
)

SVG = "{http://www.w3.org/2000/svg}"


def at_score(x: float) -> float:
    """The score that stands at a place from left to right."""
    return (x - LEFT) / (WIDTH - LEFT - RIGHT)


@given(st.lists(st.floats(-1, 1), max_size=200))
def test_the_bins_are_numpy_s(scores: list[float]) -> None:
    result = histogram(scores)
    assert result.total == len(scores)
    inside = np.clip(np.array(scores), 0, 1 - 1e-9)
    expected = np.bincount((inside * BINS).astype(int), minlength=BINS)
    assert list(result.counts) == expected.tolist()
    assert result.edges[0] == 0
    assert result.edges[-1] == 1


@given(st.floats(0, 1))
def test_the_threshold_stands_where_it_is(threshold: float) -> None:
    created = scores_figure("ferry", histogram([0.5]), None, [threshold])
    cut = next(e for e in ElementTree.fromstring(created).iter() if e.get("class") == "cut")
    result = re.match(r"M([\d.]+) ", cut.attrib["d"])
    assert result
    assert at_score(float(result[1])) == pytest.approx(threshold, abs=1e-4)


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


def test_only_few_thresholds_are_drawn_and_all_are_told_in_a_line() -> None:
    created = scores_figure("ferry", histogram([0.5]), None, [n / 20 for n in range(1, 20)])
    assert sum(e.get("class") == "cut" for e in ElementTree.fromstring(created).iter()) == 5
    assert "19 thresholds from 0.050 to 0.950" in created


@given(st.floats(1e-6, 1e9), st.integers(2, 12))
def test_ticks_are_few_round_and_up_to_the_top(top: float, most: int) -> None:
    result = ticks(top, most)
    assert result[0] == 0
    assert 2 <= len(result) <= most + 2
    assert result[-1] <= top * (1 + 1e-6)
    step = result[1]
    assert [n * step for n in range(len(result))] == pytest.approx(result)
