from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from encoder.errors import InputError
from encoder.model.weights import F32
from tests.train import tiny
from train.teacher.minilm import BLOCK, CHUNK_WORDS, CHUNKS, WIDTH, chunks, with_cache
from train.teacher.store import KEY_BYTES, VectorStore


def vectors(count: int, start: int = 0) -> F32:
    return np.asarray((np.arange(count * 4).reshape(count, 4) + start) / 8, dtype=np.float32)


def test_vectors_are_found_by_their_text_after_a_restart(tmp_path: Path) -> None:
    VectorStore(tmp_path, 4).add(["a", "b"], vectors(2))
    store = VectorStore(tmp_path, 4)
    store.add(["c"], vectors(1, 8))
    result = VectorStore(tmp_path, 4).get(["c", "a", "b", "c"])
    assert np.array_equal(result, np.concatenate([vectors(1, 8), vectors(2), vectors(1, 8)]))
    assert store.missing(["b", "x", "x", "c"]) == ["x"]


@pytest.mark.parametrize(
    ("keys", "values"), [(KEY_BYTES * 2 + 5, 16), (KEY_BYTES * 2, 13), (KEY_BYTES * 3, 15)]
)
def test_what_a_crash_cut_short_is_cut_off(tmp_path: Path, keys: int, values: int) -> None:
    VectorStore(tmp_path, 4).add(["a", "b", "c"], vectors(3))
    for name, size in (("keys", keys), ("vectors", values)):
        file = tmp_path / name
        file.write_bytes(file.read_bytes()[:size])
    store = VectorStore(tmp_path, 4)
    whole = min(keys // KEY_BYTES, values // 8)
    assert len(store) == whole
    assert store.missing("abc") == list("abc"[whole:])
    store.add(list("abc"[whole:]), vectors(3)[whole:])
    assert np.array_equal(VectorStore(tmp_path, 4).get(list("abc")), vectors(3))


def test_vectors_of_another_width_are_not_cut_off(tmp_path: Path) -> None:
    VectorStore(tmp_path, 4).add(["a", "b", "c"], vectors(3))
    with pytest.raises(InputError, match=r"4 wide, not 6; name another folder"):
        VectorStore(tmp_path, 6)
    assert np.array_equal(VectorStore(tmp_path, 4).get(list("abc")), vectors(3))


def test_one_reads_while_another_adds_and_two_that_add_do_no_harm(tmp_path: Path) -> None:
    first, second = VectorStore(tmp_path, 4), VectorStore(tmp_path, 4)
    first.add(["a", "b"], vectors(2))
    reader = VectorStore(tmp_path, 4)
    first.add(["c"], vectors(1, 8))
    assert np.array_equal(reader.get(["b"]), vectors(2)[1:])
    with pytest.raises(InputError, match="another process adds to it"):
        second.add(["d"], vectors(1))
    result = VectorStore(tmp_path, 4).get(["a", "b", "c"])
    assert np.array_equal(result, np.concatenate([vectors(2), vectors(1, 8)]))


def test_what_is_added_while_a_store_is_opened_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, read_bytes = VectorStore(tmp_path, 4), Path.read_bytes
    writer.add(["a"], vectors(1))

    def read_and_add(file: Path) -> bytes:
        content = read_bytes(file)
        writer.add(["b"], vectors(1, 8))
        return content

    monkeypatch.setattr(Path, "read_bytes", read_and_add)
    reader = VectorStore(tmp_path, 4)
    assert (len(reader), reader.missing(["a", "b"])) == (1, ["b"])


def test_a_text_without_a_vector_is_refused_with_the_remedy(tmp_path: Path) -> None:
    store = VectorStore(tmp_path, 4)
    store.add(["a"], vectors(1))
    with pytest.raises(InputError, match=r"train\.transformer\.embed"):
        store.get(["b"])


def test_an_article_falls_into_chunks_the_first_with_its_title() -> None:
    text = " ".join(str(i) for i in range(400))
    result = chunks("A title", text)
    assert result[0].startswith("A title. 0 1 2")
    assert " ".join(result) == f"A title. {text}"
    assert [len(chunk.split()) for chunk in result[:-1]] == [CHUNK_WORDS] * (len(result) - 1)
    assert len(chunks("", "word " * 5000)) == CHUNKS
    assert chunks("", "") == []


class Counting(tiny.Teacher):
    def __init__(self, dies_after: int = 10**9) -> None:
        self.texts_read: list[str] = []
        self.dies_after = dies_after

    def texts(self, given: Sequence[str]) -> F32:
        if len(self.texts_read) >= self.dies_after:
            raise KeyboardInterrupt
        self.texts_read += given
        return super().texts(given)


def test_a_text_is_read_once_and_has_the_same_vector_ever_after(tmp_path: Path) -> None:
    teacher, texts = Counting(), ["a storm", "a flood", "a storm"]
    result = with_cache(teacher.texts, VectorStore(tmp_path, WIDTH))(texts)
    assert np.allclose(result, tiny.vectors(texts), atol=2e-3)  # they are kept in half precision
    again = with_cache(teacher.texts, VectorStore(tmp_path, WIDTH))(texts[::-1])
    assert np.array_equal(again, result[::-1])
    assert sorted(teacher.texts_read) == ["a flood", "a storm"]


def test_what_was_read_before_a_stop_is_kept(tmp_path: Path) -> None:
    texts = [f"post {i}" for i in range(BLOCK + 10)]
    dying, after = Counting(dies_after=BLOCK), Counting()
    with pytest.raises(KeyboardInterrupt):
        with_cache(dying.texts, VectorStore(tmp_path, WIDTH))(texts)
    assert len(with_cache(after.texts, VectorStore(tmp_path, WIDTH))(texts)) == len(texts)
    assert len(after.texts_read) == 10
    assert not set(after.texts_read) & set(dying.texts_read)
