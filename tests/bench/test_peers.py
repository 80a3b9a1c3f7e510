import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from bench import peer_programs
from bench.peer_programs import PeerJob, PeerMatcher, PeerReader
from bench.peers import LuceneWords, open_minilm
from encoder.errors import InputError
from encoder.model.weights import F32
from train.data.readers import TrainingArticle


def test_another_file_than_the_jar_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", ModuleType("onnxruntime"))
    (tmp_path / "other.jar").write_bytes(b"no archive")
    with pytest.raises(InputError):
        open_minilm(str(tmp_path / "other.jar"))


def test_a_match_is_a_score_of_vector_and_words_of_at_least_the_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = {"fire": [1, 0], "ferry": [0.6, 0.8], "A ferry.": [1, 0]}

    def read(texts: Sequence[str]) -> F32:
        return np.array([vectors[text] for text in texts], np.float32).reshape(-1, 2)

    monkeypatch.setattr(peer_programs, "open_transformer", lambda _: read)
    PeerReader(read).articles([TrainingArticle("", "A ferry.")]).save(tmp_path / "seeds")
    values = [b'{"id": "a", "text": "fire"}', b'{"id": "b", "text": "ferry"}']
    # A vector counts 0.4; of the words of the article, "ferry" alone is no stop word.
    for cut, matching in ((0.41, ["b"]), (0.39, ["a", "b"]), (0.9, [])):
        job = PeerJob(seeds=str(tmp_path / "seeds"), thresholds=(cut,))
        matches = list(PeerMatcher(job).matches(values))
        assert [match.post for match in matches] == matching
    assert matches == []


def test_rare_words_weigh_more_in_queries_of_length_one(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        LuceneWords(tmp_path, [])
    (tmp_path / "lucene-peer-1.jar").touch()
    words = LuceneWords(tmp_path, ["the dam", "the cat", "the dog's"])
    weights = words.weights("The dam broke: the dog's gone")
    assert weights["broke"] == weights["gone"] > weights["dam"] == weights["dog's"]
    assert sum(weight**2 for weight in weights.values()) == pytest.approx(1)
