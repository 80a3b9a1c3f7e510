"""`posts.langs` by RFC 4647's basic filtering, and times as RFC 3339."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.messages import EXAMPLES, Example
from worker.posts.languages import Languages
from worker.posts.read import PassedOver, Post, read_post
from worker.posts.times import FIRST_MS, LAST_MS, rfc3339

EN = Languages.of("en")
PARTS = st.sampled_from(["en", "EN", "de", "pt", "BR", "GB", "zh", "Hant", "eng"])
TAGS = st.lists(PARTS, min_size=1, max_size=3).flatmap(
    lambda parts: st.sampled_from("-_").map(lambda mark: mark.join(parts))
)


def bluesky(*langs: str) -> bytes:
    (example,) = (each for each in EXAMPLES if each.name == "bluesky_create")
    message = json.loads(json.dumps(example.message))
    message["commit"]["record"]["langs"] = list(langs)
    return json.dumps(message).encode()


def spelled(tag: str) -> list[str]:
    return tag.lower().replace("_", "-").split("-")


@given(st.lists(TAGS, min_size=1, max_size=3), TAGS)
def test_a_language_range_matches_its_prefix(wanted: list[str], named: str) -> None:
    found = spelled(named)
    expected = any(spelled(tag) == found[: len(spelled(tag))] for tag in wanted)
    assert Languages.of(" , ".join(wanted)).keep(named) == expected


@pytest.mark.parametrize(
    ("wanted", "named", "expected"),
    [
        *(("en", named, True) for named in (None, "", "und", "UND", "zxx", "mul", "qme", "-")),
        *(("en", named, False) for named in ("de", "eng", "english", "e", "fr-en", "x" * 10**6)),
        (None, "de", True),
        ("", "de", True),
        ("en, pt_BR", "pt-br", True),
    ],
)
def test_other_languages_are_passed_over_and_unknown_ones_kept(
    wanted: str | None, named: str | None, expected: bool
) -> None:
    assert Languages.of(wanted).keep(named) == expected


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_language_of_every_form_decides(example: Example) -> None:
    value: bytes = json.dumps(example.message).encode()
    found: Any = read_post(value)
    if not isinstance(found, Post) or found.lang is None:
        assert read_post(value, langs=Languages.of("tlh")) == found
    else:
        assert read_post(value, langs=Languages.of(found.lang)) == found
        assert read_post(value, langs=Languages.of("tlh")) == PassedOver("other_language")


def test_of_several_languages_one_is_enough() -> None:
    found = read_post(bluesky("de", "en-GB"), langs=EN)
    assert isinstance(found, Post)
    assert found.lang == "en-GB"
    unasked = read_post(bluesky("de", "en-GB"))
    assert isinstance(unasked, Post)
    assert unasked.lang == "de"
    assert read_post(bluesky("de", "fr"), langs=EN) == PassedOver("other_language")
    assert isinstance(read_post(bluesky(), langs=EN), Post)


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_timestamp_of_a_record_can_be_written(milliseconds: int) -> None:
    text = rfc3339(milliseconds)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text)
    if milliseconds > LAST_MS:
        assert text == "9999-12-31T23:59:59.999Z"
    if milliseconds < FIRST_MS:
        assert text == "0001-01-01T00:00:00.000Z"
    if FIRST_MS <= milliseconds <= LAST_MS:
        seconds = (datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
        assert round(seconds * 1000) == milliseconds
