"""Matches by the hour: each post is in one bar, the bars are few, and the file stands alone."""

import re
from collections import Counter
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newsift.desk.figures import HEIGHT, LAST_HOUR, MOST_BARS, SPANS, WIDTH, hours_figure

SVG = "{http://www.w3.org/2000/svg}"
START = 498_600  # hours since 1970: 2026-11-18 00:00


def bars(created: str) -> list[tuple[dict[str, float], int]]:
    """The place of each bar, and how many posts it says it stands for."""
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
    gaps = [result[n + 1][0]["x"] - result[n][0]["x"] for n in range(2)]
    assert gaps[1] == pytest.approx(4 * gaps[0], abs=0.05)


@given(st.dictionaries(st.integers(0, LAST_HOUR), st.integers(1, 10**6), max_size=30))
def test_no_post_is_lost_and_bars_are_few(hours: dict[int, int]) -> None:
    result = bars(hours_figure("ferry", hours))
    assert sum(count for _, count in result) == sum(hours.values())
    assert len(result) <= min(MOST_BARS + 1, len(hours))
    for place, _ in result:
        assert 0 <= place["x"] <= place["x"] + place["width"] <= WIDTH
        assert 0 <= place["y"] <= place["y"] + place["height"] <= HEIGHT


@pytest.mark.parametrize("span", SPANS[:8])
def test_what_one_bar_stands_for(span: int) -> None:
    hours = {START + n: 1 for n in range(0, MOST_BARS * span, span)}
    created = hours_figure("ferry", hours)
    expected = Counter((START + n) // span for n in range(0, MOST_BARS * span, span))
    assert [count for _, count in bars(created)] == [expected[at] for at in sorted(expected)]
    text = "posts an hour" if span == 1 else f"posts in {span} hours"
    assert text in created


def test_a_stream_of_minutes_has_a_bar_a_minute() -> None:
    minutes = {60 * START + n: n + 1 for n in range(7)}
    created = hours_figure("ferry", {START: 28}, minutes)
    assert [count for _, count in bars(created)] == [1, 2, 3, 4, 5, 6, 7]
    assert "posts a minute" in created
    assert "28 posts from 2026-11-18 00:00 to 2026-11-18 00:07 UTC" in created
    longer = minutes | {60 * START + 120: 1}
    assert len(bars(hours_figure("ferry", {START: 28, START + 2: 1}, longer))) == 2


def test_it_is_told_to_who_cannot_see_it() -> None:
    root = ElementTree.fromstring(hours_figure("ferry", {START: 3, START + 1: 5}))
    assert root.attrib["role"] == "img"
    named = [root.find(f"{SVG}{name}") for name in ("title", "desc")]
    assert [each is not None and each.attrib["id"] for each in named] == ["title", "desc"]
    answer = "".join(each.text or "" for each in named if each is not None)
    assert "8 posts from 2026-11-18 00:00 to 2026-11-18 02:00 UTC" in answer


def test_nothing_is_a_figure_too() -> None:
    created = hours_figure("ferry", {})
    assert bars(created) == []
    assert "there are none" in "".join(ElementTree.fromstring(created).itertext())


@given(st.text(max_size=300))
def test_any_name_makes_a_file_that_can_be_read(event: str) -> None:
    created = hours_figure(event, {START: 1})
    root = ElementTree.fromstring(created)
    assert {each.tag.removeprefix(SVG) for each in root.iter()} <= {
        "svg", "title", "desc", "style", "rect", "path", "text",
    }  # fmt: skip
    assert re.search(r"[\x00-\x09\x0b-\x1f\u202a-\u202e]", created) is None
