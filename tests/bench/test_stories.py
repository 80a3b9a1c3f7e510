import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from bench.stories import (
    HEADER,
    NEAR,
    THRESHOLDS,
    UNLIKE,
    judge,
    pairs_of,
    plain_words,
    shared_shingles,
)
from tests.train.data_folder import write
from tests.worker.fake_command import Command
from tests.worker.small_encoder import small_encoder

TEXTS = [
    "storm and flood in the city", "RT @ann: Storm and flood in the city! http://t.co/x",
    "storm and flood in the city http://t.co/y", "storm and flood in the cities",
    "police and fire on the river", "a cat", "a cat!", "RT @bob: the match of the game, a game",
]  # fmt: skip


def shingles(text: str) -> set[str]:
    return {text[at : at + 4] for at in range(max(1, len(text) - 3))}


def test_shared_shingles_are_those_of_sets() -> None:
    texts = [plain_words(text) for text in TEXTS] + [""]
    result = shared_shingles(texts)
    for a, b in combinations(range(len(texts)), 2):
        one, other = shingles(texts[a]), shingles(texts[b])
        assert result[a, b] == pytest.approx(len(one & other) / len(one | other))


def test_pairs_are_of_the_kinds_that_they_are_by_eye() -> None:
    vectors = small_encoder().posts(TEXTS)
    pairs = pairs_of(TEXTS, vectors)
    names = list(combinations(range(len(TEXTS)), 2))
    kinds = {
        kind: {names[at] for at in np.flatnonzero(getattr(pairs, kind))}
        for kind in ("retweet", "same", "near")
    }  # fmt: skip
    assert kinds["retweet"] == {(0, 1), (1, 2)}
    assert kinds["same"] == {(0, 2)}  # the cats are too short to tell
    assert kinds["near"] == {(0, 1), (1, 2), (0, 2), (0, 3), (1, 3), (2, 3)}
    scores = vectors.similarity(vectors)
    for cut in THRESHOLDS:
        reach = [pair for pair in names if scores[pair] >= np.float32(cut)]
        row = dict(zip(HEADER, judge("e", pairs, cut), strict=True))
        assert row["near copies %"] == pytest.approx(100 * len(kinds["near"] & set(reach)) / 6)
        assert row["random ppm"] == pytest.approx(1e6 * len(reach) / len(names))
        unlike = [
            pair for pair in reach
            if shared_shingles([plain_words(TEXTS[at]) for at in pair])[0, 1] < UNLIKE
        ]  # fmt: skip
        assert row["unlike %"] == pytest.approx(100 * len(unlike) / len(reach))
    assert 0 < UNLIKE < NEAR < 1


def test_the_command_tells_both_tables(newsift: Command, tmp_path: Path) -> None:
    report = "A ferry burns in the harbour of the old city. Boats bring the passengers ashore."
    posts = ["The ferry burns in the harbour", "RT @a: The ferry burns in the harbour", "good tea"]
    rows = {
        "seed_articles": [{"event": "fire", "title": "A ferry burns", "article": report}],
        "posts": [{"event": "fire", "text": text, "label": "on-topic"} for text in posts],
    }
    for name, lines in rows.items():
        write(tmp_path / "crisis" / f"{name}.jsonl.gz", lines)
    done = newsift("bench", "stories", "--data", str(tmp_path), "--json")
    result = json.loads(done.out)
    assert [row["score"] for row in result["pairs"]["rows"]] == list(THRESHOLDS)
    assert result["pairs"]["rows"][-1]["retweets %"] == 100
    assert result["groups"]["rows"] == [{
        "event": "fire", "matches": 2, "groups": 1, "largest": 2,
        "near copies together %": 100, "unlike in one %": 0,
    }]  # fmt: skip
