"""Lines as wide as a terminal: none is wider, nothing is lost, and none could hold more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newsift.cli.output import columns, wrapped

SIZES = {"a": 1, "b": 1, " ": 1, "é": 1, "日": 2, "🔥": 2, "e\u0301": 1}
LETTERS = st.lists(st.sampled_from(list(SIZES)), max_size=60)


@pytest.mark.parametrize(
    ("text", "size"), [("", 0), ("abc", 3), ("日本", 4), ("e\u0301", 1), ("🔥!", 3), ("ｆ", 2)]
)
def test_letters_take_columns(text: str, size: int) -> None:
    assert columns(text) == size


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("one two three", ["one two", "three"]),
        ("abcdefghij k", ["abcdefgh", "ij k"]),
        ("a 日本語日本語", ["a 日本語", "日本語"]),
        ("日本 abc", ["日本 abc"]),
        ("日本語 abc", ["日本語", "abc"]),
    ],
)
def test_words_are_put_in_lines(text: str, lines: list[str]) -> None:
    assert wrapped(text, 8) == lines


@given(LETTERS, st.integers(2, 12))
def test_no_line_is_wider_nothing_is_lost_and_no_word_had_room_before(
    letters: list[str], width: int
) -> None:
    text = "".join(letters)
    lines = wrapped(text, width)
    assert "".join("".join(lines).split()) == "".join(text.split())
    sizes = [sum(SIZES[c] for c in line.replace("e\u0301", "a")) for line in lines]
    assert max(sizes) <= width
    for size, after in zip(sizes, lines[1:], strict=False):
        assert size + 1 + columns(after.split()[0]) > width
