"""Texts from outside as they are drawn: whole characters, no missing glyph, nothing read as TeX."""

import unicodedata
import warnings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from train.figures.style import glyphs, page, paper, rendered, shown
from train.figures.texts import clusters, drawable, width, wrapped

FAMILY, FLAG, THUMB = "👨\u200d👩\u200d👧", "🇨🇦", "👍🏽"
LETTERS = set(map(ord, "abcdefghijklmnopqrstuvwxyz 0123456789"))


@pytest.mark.parametrize("whole", [FAMILY, FLAG, THUMB, "e\u0301", "❤\ufe0f", "नि"])
def test_what_a_reader_takes_for_one_character_stays_whole(whole: str) -> None:
    assert clusters(f"a{whole}b") == ["a", whole, "b"]
    for columns in range(2, 6):
        for line in wrapped(f"aa{whole}bb{whole}", columns, 9):
            assert whole in line or not set(line) & (set(whole) - {"a", "b"})


def test_two_flags_are_two_characters() -> None:
    assert clusters("🇨🇦🇫🇷") == ["🇨🇦", "🇫🇷"]


@given(st.text(max_size=60), st.integers(2, 20))
@example("eins zwei drei", 4)
def test_wrapping_loses_nothing_and_keeps_to_the_columns(text: str, columns: int) -> None:
    lines = wrapped(text, columns, 1000)
    assert "".join(lines).replace(" ", "") == "".join(text.split())
    assert all(width(line) <= columns or len(clusters(line)) == 1 for line in lines)
    assert "".join(clusters(text)) == text


def test_words_are_broken_only_where_they_are_longer_than_a_line() -> None:
    assert wrapped("one two three", 7, 9) == ["one two", "three"]
    assert wrapped("extraordinary day", 5, 9) == ["extra", "ordin", "ary", "day"]
    assert wrapped("天気がいいですね", 6, 9) == ["天気が", "いいで", "すね"]


@given(st.text(max_size=80), st.integers(2, 20), st.integers(1, 3))
def test_what_is_cut_ends_with_an_ellipsis(text: str, columns: int, lines: int) -> None:
    whole, kept = wrapped(text, columns, 1000), wrapped(text, columns, lines)
    assert kept == whole or (len(kept) == lines and kept[-1].endswith("…"))
    assert kept[:-1] == whole[: len(kept) - 1]


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("今日は いい天気、ですね 41", "‹Japanese› 41"),
        ("今日天气", "‹Chinese›"),
        ("오늘 점심 is", "‹Korean› is"),
        ("नमस्ते दुनिया", "‹Devanagari›"),
        ("fire 🔥🔥 🔥", "fire ‹fire›"),
        ("go 🇨🇦", "go ‹flag CA›"),
        ("love ❤\ufe0f", "love ‹heavy black heart›"),
        ("a\nb\tc", "a b c"),
        ("\ud800", "‹unknown›"),
    ],
)
def test_what_cannot_be_drawn_is_named_once(text: str, drawn: str) -> None:
    assert drawable(text, LETTERS) == drawn


def test_scripts_read_from_the_right_are_named_where_nothing_turns_them() -> None:
    hebrew = LETTERS | set(map(ord, "שלום"))
    assert drawable("a שלום", hebrew) == "a שלום"
    assert drawable("a שלום", hebrew, right_to_left=False) == "a ‹Hebrew›"


@given(st.text(max_size=40))
@example("👍🏽 \u200d \ufe0f ﷽ \u0300")
@example("\xad")
def test_nothing_is_drawn_that_no_font_holds(text: str) -> None:
    assert {ord(c) for c in shown(text, 500)} <= glyphs() | {ord("…")}


def test_a_picture_of_wild_texts_is_drawn_without_a_warning() -> None:
    wild = [
        FAMILY,
        FLAG,
        "$5 and $\\frac$ and $10",
        "مرحبا 41",
        "ไทย",
        "今日は",
        "\ud800\x07",
        "_x",
    ]
    with paper(), warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = page(2)
        for i, text in enumerate(wild):
            figure.text(0, i / len(wild), shown(text))
            figure.text(0.5, i / len(wild), unicodedata.normalize("NFD", shown(text)))
        assert rendered(figure, "wild")["png"].startswith(b"\x89PNG")


def test_a_name_that_begins_like_a_private_one_still_enters_a_legend() -> None:
    with paper():
        axes = page(2).subplots()
        axes.plot([0, 1], label=shown("_run"))
        assert [text.get_text() for text in axes.legend().get_texts()] == [" _run"]
