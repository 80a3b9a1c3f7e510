"""Escaping of control characters."""

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from worker.text import escaped, escaped_json, one_line, printable

STEERING = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
WILD = st.text(st.characters(), max_size=40) | st.text(
    st.sampled_from("a\x1b[\x9b\x07\r\n\t\u202e\u2066\u200f\u2028\ufeff\ud800\U000e0041\xa0é"),
    max_size=20,
)


def steers(text: str) -> list[str]:
    return [char for char in text if unicodedata.category(char) in STEERING]


@given(WILD)
def test_no_control_character_remains(text: str) -> None:
    for shown in (one_line(text), printable(text), escaped(text)):
        assert not steers(shown)


@given(WILD)
def test_json_keeps_its_meaning_on_one_line(text: str) -> None:
    line = escaped_json(json.dumps({text: [text]}, ensure_ascii=False))
    assert not steers(line)
    assert json.loads(line) == {text: [text]}


@given(st.text(st.characters(categories=["L", "N", "P", "S", "M", "Zs"])))
def test_visible_characters_stay(text: str) -> None:
    assert escaped(text) == escaped_json(text) == text


def test_an_escape_is_shown() -> None:
    assert escaped("a\x1b[31m\u202eb\nc") == "a\\x1b[31m\\u202eb c"
