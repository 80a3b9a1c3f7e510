"""`posts.langs`: RFC 4647's basic filtering of what platforms name, on every form of post."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder.errors import InputError
from newsift.operations.times import since, until
from tests.worker.messages import EXAMPLES, Example
from worker.config import PostsConfig
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
def test_a_language_is_wanted_where_all_that_is_asked_for_is_there(
    wanted: list[str], named: str
) -> None:
    found = spelled(named)
    expected = any(spelled(tag) == found[: len(spelled(tag))] for tag in wanted)
    assert Languages.of(" , ".join(wanted)).keep(named) == expected


@pytest.mark.parametrize("named", [None, "", "und", "UND", "zxx", "mul", "qme", "qht", "-", "art"])
def test_what_names_no_language_stays(named: str | None) -> None:
    assert EN.keep(named)


@pytest.mark.parametrize("named", ["de", "eng", "english", "qua", "e", "fr-en", "x" * 10**6])
def test_another_language_goes(named: str) -> None:
    assert not EN.keep(named)


@pytest.mark.parametrize("unset", [None, ""])
def test_unset_all_stay(unset: str | None) -> None:
    assert Languages.of(unset).keep("de")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_language_of_every_form_decides(example: Example) -> None:
    value: bytes = json.dumps(example.message).encode()
    found: Any = read_post(value)
    if not isinstance(found, Post) or found.lang is None:
        assert read_post(value, langs=Languages.of("tlh")) == found
    else:
        assert read_post(value, langs=Languages.of(found.lang)) == found
        assert read_post(value, langs=Languages.of("tlh")) == PassedOver("other_language")


def test_of_several_languages_one_is_enough_and_is_told() -> None:
    found = read_post(bluesky("de", "en-GB"), langs=EN)
    assert isinstance(found, Post)
    assert found.lang == "en-GB"
    unasked = read_post(bluesky("de", "en-GB"))
    assert isinstance(unasked, Post)
    assert unasked.lang == "de"
    assert read_post(bluesky("de", "fr"), langs=EN) == PassedOver("other_language")
    assert isinstance(read_post(bluesky(), langs=EN), Post)


def test_a_key_of_the_configuration_is_what_is_read() -> None:
    assert Languages.of(PostsConfig(langs="en, pt_BR").langs).wanted == ("en", "pt-br")


@pytest.mark.parametrize(
    ("milliseconds", "wanted"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1_767_225_600_999, "2026-01-01T00:00:00.999Z"),
        (FIRST_MS, "0001-01-01T00:00:00.000Z"),
        (LAST_MS, "9999-12-31T23:59:59.999Z"),
        (FIRST_MS - 1, "0001-01-01T00:00:00.000Z"),
        (2**63 - 1, "9999-12-31T23:59:59.999Z"),
        (-(2**63), "0001-01-01T00:00:00.000Z"),
    ],
)
def test_rfc3339(milliseconds: int, wanted: str) -> None:
    assert rfc3339(milliseconds) == wanted


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_timestamp_of_a_record_can_be_written(milliseconds: int) -> None:
    told = rfc3339(milliseconds)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", told)
    if FIRST_MS <= milliseconds <= LAST_MS:
        seconds = (datetime.fromisoformat(told) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
        assert round(seconds * 1000) == milliseconds


@pytest.mark.parametrize("text", ["999999999w", "9999-12-31T23:59:59-01:00", "10000-01-01T00:00Z"])
def test_a_time_that_cannot_be_written_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no time"):
        until(text)


def test_a_span_longer_than_time_begins_with_it() -> None:
    assert since("999999999w") == 0
