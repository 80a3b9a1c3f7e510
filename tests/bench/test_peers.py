import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from bench import peer_programs
from bench.lucene_words import LuceneWords
from bench.peer_programs import PeerJob, PeerMatcher
from bench.peers import minilm_peer, quality
from encoder.errors import InputError
from encoder.model.weights import F32
from tests.train.data_folder import write
from train.data.readers import TrainingArticle, split_of_event

EVENT = next(f"event {n}" for n in range(100) if split_of_event(f"event {n}") == "test")


def test_the_worth_of_scores_that_rank_half_of_the_posts_first(tmp_path: Path) -> None:
    on = [{"text": f"flood {n}", "event": EVENT, "label": "on-topic"} for n in range(10)]
    off = [{"text": f"other {n}", "event": EVENT, "label": "off-topic"} for n in range(10)]
    write(tmp_path / "crisis" / "posts.jsonl.gz", on + off)
    seed = {"event": EVENT, "title": "Flood", "article": "A flood."}
    write(tmp_path / "crisis" / "seed_articles.jsonl.gz", [seed])
    write(tmp_path / "tweets" / "t.jsonl.gz", [{"text": f"everyday {n}"} for n in range(4000)])

    def score(posts: Sequence[str], articles: Sequence[TrainingArticle]) -> F32:
        ones = [post.startswith("flood") and int(post[6:]) < 5 for post in posts]
        return np.repeat(np.array(ones, np.float32)[:, None], len(articles), 1)

    [row] = quality(tmp_path, {"half": score}, lambda line: None).rows
    recall, precision, _, off_topic, background = row[1:]
    assert (recall, off_topic, background) == (100, 75, 75)  # a cut at 0 lets all pass
    assert precision == pytest.approx(100 / 26)


def test_thresholds_are_set_and_judged_on_posts_of_every_file(tmp_path: Path) -> None:
    labels = {"flood": "on-topic", "calm": "off-topic"}
    posts = [{"text": text, "event": EVENT, "label": label} for text, label in labels.items()]
    write(tmp_path / "crisis" / "posts.jsonl.gz", posts)
    seed = {"event": EVENT, "title": "Flood", "article": "A flood."}
    write(tmp_path / "crisis" / "seed_articles.jsonl.gz", [seed])
    for name in ("calm", "loud"):
        rows = [{"text": f"{name} {n}"} for n in range(4000)]
        write(tmp_path / "tweets" / f"{name}.jsonl.gz", rows)

    def score(posts: Sequence[str], articles: Sequence[TrainingArticle]) -> F32:
        scores = [{"calm": 0.1, "flood": 0.5, "loud": 0.9}[post.split()[0]] for post in posts]
        return np.repeat(np.array(scores, np.float32)[:, None], len(articles), 1)

    [row] = quality(tmp_path, {"any": score}, lambda line: None).rows
    assert row[1] == 0  # 1 in 1,000 of the everyday posts reaches 0.9, which the event does not


def test_another_file_than_the_jar_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", ModuleType("onnxruntime"))
    (tmp_path / "other.jar").write_bytes(b"no archive")
    with pytest.raises(InputError):
        minilm_peer(tmp_path / "other.jar")


class VectorsOfTwo:
    def texts(self, texts: Sequence[str]) -> F32:
        return np.array([[1, 0], [0.6, 0.8]], np.float32)[: len(texts)]


def test_a_match_is_a_cosine_of_at_least_the_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_programs, "MiniLM", lambda _: VectorsOfTwo())
    np.save(tmp_path / "seeds.npy", np.array([[1, 0], [0, 1]], np.float32))
    job = PeerJob("", "", "posts", "matches", str(tmp_path / "seeds.npy"), 0.7, "x.jar")
    values = [b'{"id": "a", "text": "x"}', b'{"id": "b", "text": "y"}']
    result = [(m.post, m.seed, m.source) for m in PeerMatcher(job).matches(values, [5, 6])]
    assert result == [("a", 0, {"timestamp": 5}), ("b", 1, {"timestamp": 6})]


def test_rare_words_weigh_more_in_queries_of_length_one(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        LuceneWords(tmp_path, [])
    (tmp_path / "lucene-peer-1.jar").touch()
    words = LuceneWords(tmp_path, ["the dam", "the cat", "the dog's"])
    weights = words.weights("The dam broke: the dog's gone")
    assert weights["broke"] == weights["gone"] > weights["dam"] == weights["dog's"]
    assert sum(weight**2 for weight in weights.values()) == pytest.approx(1)
