"""Texts from outside as they are drawn: no missing glyph, nothing too wide, nothing read as TeX."""

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.figures.subject import Sheet, drawable, fonts, glyphs, page, paper, rendered, shorten


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fonts for nothing but DejaVu's, as on a machine without others."""
    monkeypatch.setattr("train.figures.subject.OTHER_FONTS", ())
    fonts.cache_clear()
    glyphs.cache_clear()


@given(st.text(max_size=80), st.integers(4, 20), st.integers(1, 3))
def test_a_text_is_cut_to_columns_and_lines_and_no_glyph_is_missing(
    text: str, columns: int, lines: int
) -> None:
    found = shorten(text, columns, lines)
    assert found.count("\n") < lines
    assert all(len(line) <= columns for line in found.removeprefix(" ").split("\n"))
    assert all(ord(c) in glyphs() for c in found.replace("\n", ""))


def test_words_stay_whole_where_they_fit() -> None:
    assert shorten("one two three", 7, 9) == "one two\nthree"
    assert shorten("extraordinary day", 5, 9) == "extra\nordin\nary\nday"
    assert shorten("one two three", 8, 1) == "one two…"


def test_what_no_font_can_draw_is_one_box_a_run() -> None:
    assert drawable("fire 天気 が now") == "fire □ now"
    assert drawable("so 👨\u200d👩\u200d👧 hot") == "so □ hot"
    assert drawable("ca\u00adfé") == "café"  # a soft hyphen is drawn as nothing


def test_dollars_and_underscores_are_drawn_as_they_are() -> None:
    with paper(), warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = page(1)
        figure.text(0, 0, shorten("$1 and $2 \\frac {x} 天"))
        assert rendered(Sheet("a", "A", figure))["svg"]
