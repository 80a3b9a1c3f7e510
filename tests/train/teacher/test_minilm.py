"""A teacher that reads no text twice."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from encoder.model.weights import F32
from tests.train import tiny
from train.teacher.minilm import BLOCK, WIDTH, remembering
from train.teacher.store import VectorStore


class Counting(tiny.Teacher):
    """Remembers what it was asked, and stops as a machine does."""

    def __init__(self, dies_after: int = 10**9) -> None:
        self.asked: list[str] = []
        self.dies_after = dies_after

    def texts(self, given: Sequence[str]) -> F32:
        if len(self.asked) >= self.dies_after:
            raise KeyboardInterrupt
        self.asked += given
        return super().texts(given)


def test_a_text_is_read_once_and_has_the_same_vector_ever_after(tmp_path: Path) -> None:
    teacher, texts = Counting(), ["a storm", "a flood", "a storm"]
    found = remembering(teacher.texts, VectorStore(tmp_path, WIDTH))(texts)
    assert np.allclose(found, tiny.vectors(texts), atol=2e-3)  # they are kept in half precision
    again = remembering(teacher.texts, VectorStore(tmp_path, WIDTH))(texts[::-1])
    assert np.array_equal(again, found[::-1])
    assert sorted(teacher.asked) == ["a flood", "a storm"]


def test_what_was_read_before_a_stop_is_kept(tmp_path: Path) -> None:
    texts = [f"post {i}" for i in range(BLOCK + 10)]
    dying, after = Counting(dies_after=BLOCK), Counting()
    with pytest.raises(KeyboardInterrupt):
        remembering(dying.texts, VectorStore(tmp_path, WIDTH))(texts)
    assert len(remembering(after.texts, VectorStore(tmp_path, WIDTH))(texts)) == len(texts)
    assert len(after.asked) == 10
    assert not set(after.asked) & set(dying.asked)
