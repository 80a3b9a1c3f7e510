import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from bench import peer_programs
from bench.peer_programs import PeerJob, PeerMatcher
from bench.peers import LuceneWords, open_minilm
from encoder.errors import InputError


def test_another_file_than_the_jar_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", ModuleType("onnxruntime"))
    (tmp_path / "other.jar").write_bytes(b"no archive")
    with pytest.raises(InputError):
        open_minilm(tmp_path / "other.jar")


def test_a_match_is_a_cosine_of_at_least_the_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = np.array([[1, 0], [0.6, 0.8]], np.float32)
    of_two = SimpleNamespace(texts=lambda texts: vectors[: len(texts)])
    monkeypatch.setattr(peer_programs, "MiniLM", lambda _: of_two)
    np.save(tmp_path / "seeds.npy", np.array([[1, 0], [0, 1]], np.float32))
    job = PeerJob("", "", "posts", "matches", str(tmp_path / "seeds.npy"), (0.7, 0.8), "x.jar")
    values = [b'{"id": "a", "text": "x"}', b'{"id": "b", "text": "y"}']
    result = [(m.post, m.seed) for m in PeerMatcher(job).matches(values)]
    assert result == [("a", 0), ("b", 1)]


def test_rare_words_weigh_more_in_queries_of_length_one(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        LuceneWords(tmp_path, [])
    (tmp_path / "lucene-peer-1.jar").touch()
    words = LuceneWords(tmp_path, ["the dam", "the cat", "the dog's"])
    weights = words.weights("The dam broke: the dog's gone")
    assert weights["broke"] == weights["gone"] > weights["dam"] == weights["dog's"]
    assert sum(weight**2 for weight in weights.values()) == pytest.approx(1)
