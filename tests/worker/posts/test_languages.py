"""`posts.langs`: RFC 4647's basic filtering of what platforms name, on every form of post."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.messages import EXAMPLES, Example
from worker.config import PostsConfig
from worker.posts.languages import Languages
from worker.posts.read import PassedOver, Post, read_post

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
