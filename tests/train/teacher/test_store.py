"""The teacher's vectors on disk: found again, and cut back to what is whole after a crash."""

from pathlib import Path

import numpy as np
import pytest

from encoder.errors import InputError
from encoder.model.weights import F32, I32
from encoder.text.vocabulary import WordPiece
from train.teacher.minilm import CHUNK_WORDS, CHUNKS, chunks, readable
from train.teacher.store import KEY, Pieces, TokenStates, TokenTargets, VectorStore


def vectors(count: int, start: int = 0) -> F32:
    return np.asarray((np.arange(count * 4).reshape(count, 4) + start) / 8, dtype=np.float32)


def test_vectors_are_found_by_their_text_after_a_restart(tmp_path: Path) -> None:
    VectorStore(tmp_path, 4).add(["a", "b"], vectors(2))
    store = VectorStore(tmp_path, 4)
    store.add(["c"], vectors(1, 8))
    found = VectorStore(tmp_path, 4).get(["c", "a", "b", "c"])
    assert np.array_equal(found, np.concatenate([vectors(1, 8), vectors(2), vectors(1, 8)]))
    assert store.missing(["b", "x", "x", "c"]) == ["x"]


@pytest.mark.parametrize(("keys", "values"), [(KEY * 2 + 5, 16), (KEY * 2, 13), (KEY * 3, 15)])
def test_what_a_crash_cut_short_is_cut_off(tmp_path: Path, keys: int, values: int) -> None:
    VectorStore(tmp_path, 4).add(["a", "b", "c"], vectors(3))
    for name, size in (("keys", keys), ("vectors", values)):
        file = tmp_path / name
        file.write_bytes(file.read_bytes()[:size])
    store = VectorStore(tmp_path, 4)
    whole = min(keys // KEY, values // 8)
    assert len(store) == whole
    assert store.missing("abc") == list("abc"[whole:])
    store.add(list("abc"[whole:]), vectors(3)[whole:])
    assert np.array_equal(VectorStore(tmp_path, 4).get(list("abc")), vectors(3))


def test_one_reads_while_another_adds_and_two_that_add_do_no_harm(tmp_path: Path) -> None:
    first, second = VectorStore(tmp_path, 4), VectorStore(tmp_path, 4)
    first.add(["a", "b"], vectors(2))
    reader = VectorStore(tmp_path, 4)
    first.add(["c"], vectors(1, 8))
    assert np.array_equal(reader.get(["b"]), vectors(2)[1:])
    with pytest.raises(InputError, match="another process adds to it"):
        second.add(["d"], vectors(1))
    found = VectorStore(tmp_path, 4).get(["a", "b", "c"])
    assert np.array_equal(found, np.concatenate([vectors(2), vectors(1, 8)]))


def test_a_text_without_a_vector_is_refused_with_the_remedy(tmp_path: Path) -> None:
    store = VectorStore(tmp_path, 4)
    store.add(["a"], vectors(1))
    with pytest.raises(InputError, match=r"train\.teach"):
        store.get(["b"])


def test_an_article_falls_into_chunks_the_first_with_its_title() -> None:
    text = " ".join(str(i) for i in range(400))
    found = chunks("A title", text)
    assert found[0].startswith("A title. 0 1 2")
    assert " ".join(found) == f"A title. {text}"
    assert [len(chunk.split()) for chunk in found[:-1]] == [CHUNK_WORDS] * (len(found) - 1)
    assert len(chunks("", "word " * 5000)) == CHUNKS
    assert chunks("", "") == []


def test_the_teacher_reads_no_links_and_no_retweet_signs() -> None:
    assert readable("RT @user: fire &amp; smoke https://t.co/x") == "fire & smoke"
    assert readable("https://t.co/x") == "https://t.co/x"


LINES = ["[UNK]", "storm", "##s", "sea", "##side"]
WHOLE = ["storms", "seaside"]
VOCABULARY = WordPiece.from_lines([*LINES, *WHOLE])


def ids(*pieces: int) -> I32:
    return np.array(pieces, np.int32)


def states(pieces: int, seed: int = 0) -> F32:
    return np.random.default_rng(seed).standard_normal((pieces, 4)).astype(np.float32)


def near(found: F32, expected: F32) -> bool:
    """Whether states are equal but for their rounding to int8."""
    return bool(np.abs(found - expected).max() <= np.abs(expected).max() / 127)


def test_states_are_there_by_the_pieces_after_a_restart(tmp_path: Path) -> None:
    first, second, third = ids(1, 2, 3), ids(3, 4), ids(1)
    TokenStates(tmp_path, 4).add([first, second], [states(3), states(2, 1)])
    store = TokenStates(tmp_path, 4)
    store.add([third], [states(1, 2)])
    for one in (store, TokenStates(tmp_path, 4)):
        assert (len(one), one.rows) == (3, 6)
        assert [one.start(x) for x in (first, second, third, ids(2))] == [0, 3, 5, -1]
        assert near(one.read(np.arange(6)), np.concatenate([states(3), states(2, 1), states(1, 2)]))


@pytest.mark.parametrize(
    ("name", "size"), [("keys", KEY + 3), ("lengths", 7), ("scales", 4 * 4), ("codes", 4 * 4 + 1)]
)
def test_what_a_crash_cut_short_is_added_again(tmp_path: Path, name: str, size: int) -> None:
    texts = [ids(1, 2, 3), ids(3, 4)]
    TokenStates(tmp_path, 4).add(texts, [states(3), states(2, 1)])
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:size])
    store = TokenStates(tmp_path, 4)
    assert [store.start(text) for text in texts] == [0, -1]
    store.add(texts[1:], [states(2, 1)])
    whole = TokenStates(tmp_path, 4)
    assert [whole.start(text) for text in texts] == [0, 3]
    assert near(whole.read(np.arange(3, 5)), states(2, 1))


def test_a_token_is_taught_by_the_mean_of_its_pieces(tmp_path: Path) -> None:
    pieces = Pieces(VOCABULARY, len(LINES))
    text = ids(5, 3, 6, 1)  # storms sea seaside storm
    assert pieces.of(text).tolist() == [1, 2, 3, 3, 4, 1]
    store, given = TokenStates(tmp_path, 4), states(6)
    store.add([ids(2), pieces.of(text)], [states(1, 9), given])
    targets = TokenTargets(store, pieces)
    assert targets.starts([text, ids(1)]).tolist() == [1, -1]
    every = np.stack([given[:2].mean(0), given[2], given[3:5].mean(0), given[5]])
    assert near(targets.read(1, text, np.arange(4)), every)
    assert near(targets.read(1, text, np.array([0, 2])), every[[0, 2]])
