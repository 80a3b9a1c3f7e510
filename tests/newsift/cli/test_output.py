import re

import click
from hypothesis import given
from hypothesis import strategies as st

from newsift.cli.output import columns, highlight_text, highlight_words, wrap

PAIRS = [("the", 0.001), ("hurricane", 0.4), ("hit", 0.15), ("not", -0.2), ("texas", 0.25)]
SIZES = {"a": 1, "b": 1, " ": 1, "é": 1, "日": 2, "🔥": 2, "e\u0301": 1}
LETTERS = st.lists(st.sampled_from(list(SIZES)), max_size=60)


def test_without_colour_the_largest_parts_are_numbered() -> None:
    line = highlight_words([*PAIRS, ("", 0.3)], colour=False)
    assert line == "the hurricane[0.40] hit[0.15] not[-0.20] texas[0.25]"
    many = highlight_words([(f"w{i}", 0.1 + i / 1000) for i in range(20)], colour=False)
    numbered = [word.split("[")[0] for word in many.split() if "[" in word]
    assert numbered == [f"w{i}" for i in range(12, 20)]
    assert highlight_words([("a", 0.004), ("b", 0.0), ("c", -0.001)], colour=False) == "a b c"


@given(st.lists(st.tuples(st.text(), st.floats(-1, 1))), st.booleans())
def test_no_word_steers_the_terminal(pairs: list[tuple[str, float]], colour: bool) -> None:
    line = highlight_words(pairs, colour)
    assert click.unstyle(line).isprintable()
    assert colour or "\x1b" not in line


def test_words_are_highlighted_where_they_stand() -> None:
    why = [("ferry", 0.5), ("Fire", 0.25), ("calm", -0.2), ("", 0.1), ("the", 0.001)]
    line = highlight_text("FERRY, ferry! the fire-ferryman #FerryFire calm", why, False)
    assert line == (
        "FERRY[0.50], ferry[0.50]! the fire[0.25]-ferryman #Ferry[0.50]Fire[0.25] calm[-0.20]"
    )


@given(st.text(), st.lists(st.tuples(st.text(max_size=5), st.floats(-1, 1))))
def test_light_takes_nothing_from_a_text(text: str, why: list[tuple[str, float]]) -> None:
    painted = highlight_text(text, why, True)
    if "\x1b" not in text:
        assert re.sub(r"\x1b\[[\d;]*m", "", painted) == text


@given(LETTERS, st.integers(2, 12))
def test_lines_are_full_never_wider_and_lose_nothing(letters: list[str], width: int) -> None:
    text = "".join(letters)
    lines = wrap(text, width)
    assert "".join("".join(lines).split()) == "".join(text.split())
    sizes = [sum(SIZES[c] for c in line.replace("e\u0301", "a")) for line in lines]
    assert max(sizes) <= width
    for size, after in zip(sizes, lines[1:], strict=False):
        assert size + 1 + columns(after.split()[0]) > width
