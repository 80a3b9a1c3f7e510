"""`newsift demo`: the samples, and what it prints of them with the model that ships."""

import re
from collections import Counter

import pytest

import encoder
from tests.worker.fake import Command
from worker.cli.common import read_article
from worker.cli.demo import SAMPLES, read_posts

EVENTS = sorted(file.stem for file in (SAMPLES / "seeds").glob("*.md"))


def test_every_sample_article_has_a_title_and_a_text() -> None:
    assert len(EVENTS) == 4
    for event in EVENTS:
        title, text = read_article(SAMPLES / "seeds" / f"{event}.md")
        assert 20 < len(title) < 120
        assert len(text.split()) > 150


def test_the_sample_posts_are_distinct_and_most_are_about_nothing_wanted() -> None:
    posts = read_posts(SAMPLES / "posts.jsonl")
    assert len({post.text for post in posts}) == len(posts) > 200
    count = Counter(post.event for post in posts)
    assert sorted(event for event in count if event) == EVENTS
    assert count[None] > len(posts) / 2


def test_the_demo_prints_its_matches_and_sums_them_up(newsift: Command) -> None:
    done = newsift("demo", "--device", "cpu")
    assert done.code == 0, done.err
    assert "offline" in done.err
    assert "\x1b" not in done.out
    matches = re.findall(r"^\d\.\d\d  .+$", done.out, re.MULTILINE)
    table = dict(re.findall(rf"^({'|'.join(EVENTS)}) +\d+ +(\d+) ", done.out, re.MULTILINE))
    assert sum(map(int, table.values())) == len(matches)
    assert sorted(table) == EVENTS


def test_the_demo_finds_the_events_it_was_given() -> None:
    enc = encoder.load("default", device="cpu")
    posts = read_posts(SAMPLES / "posts.jsonl")
    seeds = enc.articles([read_article(SAMPLES / "seeds" / f"{event}.md") for event in EVENTS])
    best = enc.posts([post.text for post in posts]).similarity(seeds).argmax(axis=1)
    about = [(post.event, EVENTS[k]) for post, k in zip(posts, best, strict=True) if post.event]
    right = sum(event == found for event, found in about)
    assert right / len(about) == pytest.approx(1, abs=0.25)
