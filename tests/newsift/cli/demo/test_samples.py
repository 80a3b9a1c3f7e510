"""The samples: articles and posts that are what the demo says, in forms that the worker reads."""

import json
from collections import Counter

import pytest

import encoder
from newsift.cli.demo import (
    HARMLESS,
    POISON,
    SamplePost,
    as_message,
    read_articles,
    read_posts,
)
from worker.posts.read import PassedOver, Post, Rejected, read_post
from worker.posts.shape import shape
from worker.seeds.record import Seed, read_seed

POSTS = read_posts()
EVENTS = list(read_articles())
PLATFORMS = ("x", "bluesky", "mastodon", "plain")
REASONS = (
    "bad_json", "wrong_type", "too_deep", "invalid_utf8", "lone_surrogate", "no_id", "no_text",
    "empty_value", "unknown_form",
)  # fmt: skip


def test_every_sample_article_has_a_title_and_a_text() -> None:
    assert len(EVENTS) == 5
    for event, (title, text) in read_articles().items():
        assert 20 < len(title) < 120
        assert len(text.split()) > 150
        seed = read_seed(event.encode(), json.dumps({"title": title, "text": text}).encode())
        assert isinstance(seed, Seed)
        assert (seed.event, seed.title, seed.text) == (event, title, text)


def test_the_sample_posts_are_distinct_and_most_are_about_nothing_wanted() -> None:
    assert len({post.text for post in POSTS}) == len({post.id for post in POSTS}) == len(POSTS)
    assert len(POSTS) > 300
    count = Counter(post.event for post in POSTS)
    assert sorted(event for event in count if event) == EVENTS
    assert count[None] > len(POSTS) / 2


def test_every_form_brings_whole_posts() -> None:
    seen = set()
    for post in POSTS:
        message = as_message(post)
        result = read_post(message)
        if not isinstance(result, Post):
            assert result == PassedOver("no_words")
            continue
        assert result.text == post.text
        assert result.platform == shape(message)
        seen.add(result.platform)
    assert seen == set(PLATFORMS)


def test_ids_are_the_posts_own() -> None:
    posts = [SamplePost(n, f"words {n}" * 60, None) for n in range(2 * len(PLATFORMS))]
    result = [read_post(as_message(post)) for post in posts]
    assert [read.text for read in result if isinstance(read, Post)] == [p.text for p in posts]
    assert len({read.id for read in result if isinstance(read, Post)}) == len(posts)


@pytest.mark.parametrize(
    ("reason", "value"), list(zip(REASONS, POISON, strict=True)), ids=range(len(POISON))
)
def test_poison_is_rejected_for_its_reason(reason: str, value: bytes | None) -> None:
    result = read_post(value)
    assert isinstance(result, Rejected)
    assert result.reason == reason


def test_what_is_harmless_is_passed_over() -> None:
    assert [type(read_post(value)) for value in HARMLESS] == [PassedOver] * len(HARMLESS)


def test_the_model_that_ships_tells_the_events_apart() -> None:
    enc = encoder.load("default", device="cpu")
    seeds = enc.articles(list(read_articles().values()))
    best = enc.posts([post.text for post in POSTS]).similarity(seeds).argmax(axis=1)
    about = [(p.event, EVENTS[k]) for p, k in zip(POSTS, best, strict=True) if p.event]
    right = sum(event == result for event, result in about)
    assert right / len(about) > 0.75
