"""Words lit by contribution: order, brightness, and nothing that steers the terminal."""

import re

import click
from hypothesis import given
from hypothesis import strategies as st

from newsift.cli.output import SHADES, highlight_words

PAIRS = [("the", 0.001), ("hurricane", 0.4), ("hit", 0.15), ("not", -0.2), ("texas", 0.25)]
BACKGROUND = re.compile(r"48;5;(\d+)")


def backgrounds(line: str) -> list[int | None]:
    result = [BACKGROUND.search(word) for word in line.split(" ")]
    return [int(match[1]) if match else None for match in result]


def test_without_colour_the_largest_parts_are_numbered() -> None:
    assert highlight_words([*PAIRS, ("", 0.3)], colour=False) == (
        "the hurricane[0.40] hit[0.15] not[-0.20] texas[0.25]"
    )


def test_at_most_eight_words_are_numbered_and_none_with_nothing() -> None:
    line = highlight_words([(f"w{i}", 0.1 + i / 1000) for i in range(20)], colour=False)
    assert [word.split("[")[0] for word in line.split() if "[" in word] == [
        f"w{i}" for i in range(12, 20)
    ]
    assert highlight_words([("a", 0.004), ("b", 0.0), ("c", -0.001)], colour=False) == "a b c"


def test_with_colour_lamps_burn_in_proportion() -> None:
    line = highlight_words([*PAIRS, ("", 0.3)], colour=True)
    assert click.unstyle(line) == "the hurricane hit not texas"
    lamps = [background for background, _ in SHADES]
    assert backgrounds(line) == [None, lamps[3], lamps[1], None, lamps[2]]
    the, _, _, grey, _ = line.split(" ")
    assert the == "the"
    assert grey == click.style("not", fg=244)


def test_what_takes_most_sets_the_scale_too() -> None:
    line = highlight_words([("no", -1.0), ("yes", 0.05), ("well", 0.2)], colour=True)
    assert backgrounds(line) == [None, None, SHADES[0][0]]


def test_text_on_a_lamp_has_its_own_colour() -> None:
    for background, text in SHADES:
        assert abs(luminance(background) - luminance(text)) > 0.2


def luminance(colour: int) -> float:
    """The brightness of one of the 256 colours of the cube, from 0 to 1."""
    steps = (0, 95, 135, 175, 215, 255)
    cube = colour - 16
    red, green, blue = ((steps[cube // n % 6] / 255) ** 2.2 for n in (36, 6, 1))
    return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)


@given(st.lists(st.tuples(st.text(), st.floats(-1, 1))), st.booleans())
def test_no_word_steers_the_terminal(pairs: list[tuple[str, float]], colour: bool) -> None:
    line = highlight_words(pairs, colour)
    assert click.unstyle(line).isprintable()
    assert colour or "\x1b" not in line


def test_nothing_gives_an_empty_line() -> None:
    assert highlight_words([], colour=True) == highlight_words([("", 0.5)], colour=False) == ""
