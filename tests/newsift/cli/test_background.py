import json
import re
from pathlib import Path

import numpy as np
import pytest

from encoder import Embeddings, Encoder
from tests.newsift.cli.test_backfill import ABOUT, SEED, post
from tests.worker.command_topics import POSTS, SEEDS, Kafka
from tests.worker.fake_command import Command

NOUNS = ["cake", "walk", "park", "bus", "music", "rain", "shop", "tea", "garden", "film", "dog"]
RATE = "0.01"


@pytest.fixture(autouse=True)
def _with_a_coarse_rate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEWSIFT_MATCHING__BACKGROUND_RATE", RATE)
    monkeypatch.delenv("NEWSIFT_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)


def everyday(count: int) -> list[str]:
    rng = np.random.default_rng(5)
    return [f"{' '.join(rng.choice(NOUNS, 4))} number {i}" for i in range(count)]


def test_builds_from_the_topic_without_matches(
    newsift: Command, kafka: Kafka, enc: Encoder
) -> None:
    texts = everyday(400)
    for partition in range(3):
        kafka.fill(POSTS, [post(t, t) for t in texts[partition::3]], partition)
    kafka.fill(
        POSTS, [post("a", ABOUT), post("b", "RT @x: " + texts[0]), post("c", "🌊"), b"{broken"]
    )
    kafka.send(SEEDS, SEED, b"ferry-fire")
    done = newsift("background", "build", "--from-topic", "--json", "--out", "own.safetensors")
    assert done.code == 0, done.err
    assert "404 messages read; left out: 1 no posts, 1 without words, 1 copies, 1 near" in done.err
    assert "beyond" not in done.err
    output = json.loads(done.out)
    assert output["posts"] == 400
    assert output["source"] == f"{POSTS} of {kafka.address}"
    assert output["first"] <= output["last"] <= output["made"]
    expected = enc.posts(texts).dense
    result = Embeddings.load("own.safetensors").dense
    assert {row.tobytes() for row in result} == {row.tobytes() for row in expected}
    assert json.loads(newsift("status", "--json").out)["state"] == "dead"  # no group was there


def test_show_describes_a_file_or_the_shipped_background(newsift: Command, enc: Encoder) -> None:
    rows = ({"text": t, "author": str(i)} for i, t in enumerate(everyday(500)))
    Path("posts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert newsift("background", "build", "posts.jsonl", "--posts", "400").code == 0
    output = json.loads(newsift("background", "show", "background.safetensors", "--json").out)
    assert output["rates"][-1] == {"rate": 0.01, "tail": 4, "spread": 0.5}
    assert re.search("posts +400\n", newsift("background", "show", "background.safetensors").out)
    shipped = json.loads(newsift("background", "show", "--json").out)
    assert (shipped["posts"], shipped["model"]) == (len(enc.background), enc.digest)
