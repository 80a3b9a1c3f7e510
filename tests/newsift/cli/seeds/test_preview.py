import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoder import Encoder
from newsift.operations.seed_publication import MAX_BEST_POSTS, PreviewLimits
from tests.newsift.cli.events.ferry import ARTICLES, add_posts, add_seeds, sample_posts
from tests.worker.fake import Command
from tests.worker.kafka_side import POSTS, SEEDS, Kafka

HOUR = 3_600_000
TITLE, TEXT = ARTICLES["fire"]


@pytest.fixture(autouse=True)
def _no_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "newsift.operations.seed_publication.SCRIPT_LIMITS", PreviewLimits(5_000, 60.0)
    )


@pytest.fixture
def fire(tmp_path: Path) -> Path:
    file = tmp_path / "fire.md"
    file.write_text(f"# {TITLE}\n\n{TEXT}\n")
    return file


def matched_by(enc: Encoder, posts: list[str], *articles: tuple[str, str]) -> list[float]:
    seeds = enc.articles(articles)
    cuts = enc.thresholds(seeds, 0.001)
    scores = enc.posts(posts).similarity(seeds)
    return sorted((max(row) for row in scores if (row >= cuts).any()), reverse=True)


def texts() -> list[str]:
    return [str(post["text"]) for post in sample_posts()]


def readable(enc: Encoder) -> int:
    vectors = enc.posts(texts())
    words = np.diff(vectors.lexical.indptr)
    return sum(dense.any() or n > 0 for dense, n in zip(vectors.dense, words, strict=True))


def test_add_previews_the_matches(newsift: Command, kafka: Kafka, enc: Encoder, fire: Path) -> None:
    add_posts(kafka)
    kafka.send(POSTS, b'{"id": "old", "text": "%b"}' % TEXT.encode(), at=1_000_000)
    kafka.send(POSTS, b"no post")
    done = newsift("seeds", "add", fire, "--event", "ferry")
    assert done.code == 0, done.err
    cut = float(enc.thresholds(enc.articles([(TITLE, TEXT)]), 0.001)[0])
    assert f"new, automatic threshold {cut:.4f} (1 in 1,000 everyday posts reaches it)" in done.out
    expected = matched_by(enc, texts(), (TITLE, TEXT))
    of = f"{len(expected)} of {readable(enc)} posts of the last 24 hours"
    head = f"'ferry': {of} would have matched:"
    assert head in done.err
    shown = [line for line in done.err.splitlines() if line.startswith("newsift:   0.")]
    assert 0 < len(shown) <= MAX_BEST_POSTS
    assert float(shown[0].split()[1]) == pytest.approx(expected[0], abs=0.0051)
    assert "event 'ferry' has fewer than three articles: with three an event found" in done.err
    assert newsift("seeds", "list").out.splitlines()[1].split()[4:6] == ["auto", f"{cut:.4f}"]


def test_json_previews_by_option(newsift: Command, kafka: Kafka, enc: Encoder, fire: Path) -> None:
    add_seeds(kafka)
    add_posts(kafka)
    (row,) = map(json.loads, newsift("seeds", "add", fire, "--json").out.splitlines())
    assert not row.keys() & {"preview", "auto_threshold"}
    other = fire.rename(fire.with_name("third.md"))
    third = f"{TEXT} The coastguard of Port Maren says so."
    other.write_text(f"# {TITLE}\n\n{third}")
    options = ["--event", "ferry", "--json", "--preview"]
    (row,) = map(json.loads, newsift("seeds", "add", other, *options).out.splitlines())
    assert 0 < row["auto_threshold"] < 1
    seen = row["preview"]
    assert (seen["posts"], seen["whole"], seen["hours"]) == (readable(enc), True, 24)
    of_event = matched_by(enc, texts(), ARTICLES["rescue"], (TITLE, third))  # fire has left it
    assert seen["matched"] == len(of_event)
    assert seen["gained"] <= seen["matched"]
    assert len(seen["best"]) == MAX_BEST_POSTS


def test_publishes_without_a_model(
    newsift: Command, kafka: Kafka, fire: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from encoder.errors import ModelError

    def load(*_: Any, **__: Any) -> None:
        raise ModelError("model 'gone': there is none of this name")

    monkeypatch.setattr("encoder.load", load)
    done = newsift("seeds", "add", fire)
    assert done.code == 0
    assert "thresholds and matches are not shown: model 'gone': there is none" in done.err
    assert len(kafka.records(SEEDS)) == 1
    assert newsift("seeds", "list").out.splitlines()[1].split()[4] == "auto"
