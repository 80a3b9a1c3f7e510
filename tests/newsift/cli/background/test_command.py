"""`newsift background`: from a topic and from files, what is left out, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import encoder
from encoder import Embeddings
from newsift.cli.background import USUAL
from tests.newsift.cli.test_backfill import ABOUT, SEED, post
from tests.worker.fake import Command
from tests.worker.kafka_side import POSTS, SEEDS, Kafka

NOUNS = ["cake", "walk", "park", "bus", "music", "rain", "shop", "tea", "garden", "film", "dog"]
RATE = "0.01"


@pytest.fixture(autouse=True)
def _with_a_coarse_rate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEWSIFT_MODEL__DEVICE", "cpu")
    monkeypatch.setenv("NEWSIFT_MATCHING__BACKGROUND_RATE", RATE)
    monkeypatch.delenv("NEWSIFT_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)


def everyday(count: int) -> list[str]:
    rng = np.random.default_rng(5)
    return [f"{' '.join(rng.choice(NOUNS, 4))} number {i}" for i in range(count)]


def written(path: Path, texts: list[str], author: Callable[[int], str | None] = str) -> Path:
    rows = ({"id": str(i), "text": t, "author": author(i), "lang": "en"}
            for i, t in enumerate(texts))  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def vectors_of(texts: list[str]) -> set[bytes]:
    return {row.tobytes() for row in encoder.load("default", device="cpu").posts(texts).dense}


def test_from_the_topic_without_what_the_seeds_look_for(newsift: Command, kafka: Kafka) -> None:
    texts = everyday(400)
    for partition in range(3):
        kafka.fill(POSTS, [post(t, t) for t in texts[partition::3]], partition)
    kafka.fill(POSTS, [post("a", ABOUT), post("b", "RT @x: " + texts[0]), b"{broken"])
    kafka.send(SEEDS, SEED, b"ferry-fire")
    done = newsift("background", "build", "--from-topic", "--json", "--out", "own.safetensors")
    assert done.code == 0, done.err
    assert "403 messages read; left out: 1 no posts, 1 copies, 1 near a seed" in done.err
    output = json.loads(done.out)
    assert (output["posts"], output["platforms"]) == (400, {"plain": 400})
    assert output["source"] == f"{POSTS} of {kafka.address}"
    assert output["first"] <= output["last"] <= output["made"]
    result = Embeddings.load("own.safetensors")
    assert {row.tobytes() for row in result.dense} == vectors_of(texts)
    assert json.loads(newsift("status", "--json").out)["state"] == "dead"  # no group was there


def test_it_is_shown_beside_the_model_s_own(newsift: Command, kafka: Kafka) -> None:
    texts = written(Path("posts.jsonl"), everyday(500))
    assert newsift("background", "build", str(texts), "--posts", "400").code == 0
    kafka.send(SEEDS, SEED, b"ferry-fire")
    output = json.loads(newsift("background", "show", "background.safetensors", "--json").out)
    enc, seed = encoder.load("default", device="cpu"), json.loads(SEED)
    article = enc.articles([(seed["title"], seed["text"])])
    own = enc.thresholds(article, float(RATE), Embeddings.load("background.safetensors"))[0]
    shipped = enc.thresholds(article, float(RATE))[0]
    assert output["seeds"] == [{"seed": "ferry-fire", "threshold": own, "shipped": shipped}]
    assert output["rates"][-1] == {"rate": 0.01, "tail": 4, "spread": 0.5}
    assert output["languages"] == {"en": 400}
    assert output["authors"] == "400"
    shown = newsift("background", "show", "background.safetensors").out
    assert f"{own:.3f}" in shown
    assert "languages     en 400" in shown
    usual = newsift("background", "show").out
    assert f"{USUAL:,}" in usual
    assert f"{shipped:.3f}" in usual


def test_without_a_broker_a_file_is_shown_all_the_same(newsift: Command) -> None:
    texts = written(Path("posts.jsonl"), everyday(320), lambda _: "ann")
    assert newsift("background", "build", str(texts)).code == 0
    done = newsift("background", "show", "background.safetensors", "--kafka", "127.0.0.1:1")
    assert done.code == 0
    assert "no thresholds of seeds: broker 127.0.0.1:1" in done.err
    assert "posts         320" in done.out
    assert done.out.splitlines()[-1].split() == ["0.01", "3", "±", "58%"]


def test_filter_agrees_with_the_configuration(
    newsift: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = written(Path("posts.jsonl"), [*everyday(320), ABOUT])
    Path("ferry.json").write_bytes(SEED)
    assert newsift("background", "build", "posts.jsonl").code == 0
    usual = newsift("filter", "--force", str(texts), "--seeds", "ferry.json").out
    monkeypatch.setenv("NEWSIFT_MATCHING__BACKGROUND", "background.safetensors")
    result = newsift("filter", "--force", str(texts), "--seeds", "ferry.json")
    assert result.code == 0
    sets = {json.loads(out.splitlines()[-1])["seed_set"] for out in (usual, result.out)}
    assert len(sets) == 2
    done = newsift("filter", "--force", str(texts), "--seeds", "ferry.json", "--rate", "0.001")
    assert done.code == 2
    assert "matching.background: background.safetensors: 321 posts are too few" in done.err
    assert "; 3,000 are needed" in done.err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "give files, or --from-topic"),
        (["posts.jsonl", "--from-topic"], "give files, or --from-topic"),
        (["posts.jsonl", "--out", "own.bin"], "--out own.bin: must end in .safetensors"),
        (["posts.jsonl", "--out", "no/own.safetensors"], "no/own.safetensors: there is no folder"),
        (["posts.jsonl", "--posts", "0"], "--posts"),
        (["gone.jsonl"], "gone.jsonl: cannot be read"),
        (["posts.jsonl"], "posts.jsonl: 200 posts are too few for matching.background_rate 0.01"),
        (["posts.jsonl", "--posts", "50"], "50 posts are too few"),
    ],
)
def test_what_is_refused_leaves_the_old_file(
    newsift: Command, args: list[str], message: str
) -> None:
    old = Path("background.safetensors")
    old.write_bytes(b"old")
    written(Path("posts.jsonl"), everyday(200))
    done = newsift("background", "build", *args)
    assert (done.code, done.out, message in done.err) == (2, "", True), done.err
    assert old.read_bytes() == b"old"
    assert sorted(path.name for path in Path().iterdir()) == [old.name, "posts.jsonl"]


def test_a_missing_file_is_found_by_config_check(
    newsift: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_MATCHING__BACKGROUND", "gone.safetensors")
    done = newsift("config", "check")
    assert done.code == 2
    assert "NEWSIFT_MATCHING__BACKGROUND: matching.background: gone.safetensors: cannot" in done.err
    shown = newsift("background", "show")
    assert shown.code == 2
