"""An event's vector: there and back, compared as an article is, and what is refused."""

import base64
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import load, save

from encoder import Embeddings
from encoder.embeddings import thresholds
from encoder.errors import InputError, MismatchError
from encoder.score.lexical import SLOTS
from tests.worker.learned import vector_of
from tests.worker.small import ARTICLES, small_encoder
from worker.seeds.vectors import MOST_CHARS, MOST_WORDS, EventVector

DIM = small_encoder().dim
POSTS = ["storm flood in the city", "a cat", "police fire", "", "music of the game", "??"]


def posts(mix: float = 0.6) -> Embeddings:
    return small_encoder(mix).posts(POSTS)


def event(mix: float = 0.6) -> EventVector:
    """The flood, and what speaks against it."""
    return vector_of([ARTICLES["flood"]], [ARTICLES["game"]], mix)


def parts(vector: EventVector) -> dict[str, NDArray[np.generic]]:
    return {"dense": vector.dense, "slots": vector.slots, "weights": vector.weights}


def encoded(**changed: NDArray[np.generic]) -> str:
    return base64.b64encode(save(parts(event()) | changed)).decode()


@pytest.mark.parametrize("mix", [0.0, 0.6])
def test_its_score_is_the_product_with_the_vectors_of_posts(mix: float) -> None:
    vector = event(mix)
    assert (vector.weights < 0).any() == bool(mix)
    whole = np.zeros(DIM + SLOTS)
    whole[:DIM] = vector.dense
    whole[DIM + vector.slots] = vector.weights
    assert whole @ whole == pytest.approx(1, abs=1e-6)
    wanted = posts(mix).as_vectors() @ whole
    np.testing.assert_allclose(vector.scores(posts(mix)), wanted, atol=1e-6)
    row = vector.as_row(mix, small_encoder(mix).digest)
    np.testing.assert_allclose(posts(mix).similarity(row)[:, 0], wanted, atol=1e-6)


def test_it_comes_back_as_it_went() -> None:
    vector = event()
    again = EventVector.read(vector.encoded())
    for name, array in parts(vector).items():
        np.testing.assert_array_equal(parts(again)[name], array)
        assert not parts(again)[name].flags.writeable
        assert parts(again)[name].flags.aligned
    assert again.encoded() == vector.encoded()


def test_words_in_any_order_are_the_same() -> None:
    vector = event()
    order = np.random.default_rng(5).permutation(len(vector.slots))
    mixed = EventVector.read(encoded(slots=vector.slots[order], weights=vector.weights[order]))
    for name, array in parts(vector).items():
        np.testing.assert_array_equal(parts(mixed)[name], array)
    np.testing.assert_array_equal(mixed.scores(posts()), vector.scores(posts()))


def test_only_the_heaviest_words_are_kept() -> None:
    count = MOST_WORDS + 500
    weights = np.random.default_rng(7).normal(size=count).astype(np.float32)
    slots = np.arange(0, 20 * count, 20, dtype=np.int32)
    made = EventVector.of(np.zeros(DIM, np.float32), slots, weights)
    heavy = sorted(range(count), key=lambda i: -abs(weights[i]))[:MOST_WORDS]
    assert made.slots.tolist() == [20 * i for i in sorted(heavy)]
    assert len(made.encoded()) <= MOST_CHARS
    with pytest.raises(InputError, match="0 long"):
        EventVector.of(np.zeros(DIM, np.float32), slots, weights * 0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "expected a string"),
        (7, "expected a string"),
        ("A" * (MOST_CHARS + 1), f"{MOST_CHARS + 1} characters, {MOST_CHARS} are allowed"),
        ("A" * 10_000_000, "10000000 characters"),
        ("ü", "no base64"),
        ("AAA", "no base64"),
        ("", "no safetensors"),
        (base64.b64encode(b"\xff" * 64).decode(), "no safetensors"),
        (base64.b64encode((2).to_bytes(8, "little") + b"{}").decode(), "dense is missing"),
        (encoded(dense=event().dense.astype(np.float64)), "dense is no flat array of float32"),
        (encoded(dense=event().dense[None]), "dense is no flat array"),
        (encoded(slots=event().slots.astype(np.int64)), "slots is no flat array of int32"),
        (encoded(weights=event().weights.astype(np.float16)), "weights is no flat array"),
        (encoded(weights=event().weights[1:]), "as many weights as slots"),
        (encoded(dense=np.zeros(0, np.float32)), "0 axes"),
        (encoded(dense=np.zeros(2**13 + 1, np.float32)), "8193 axes"),
        (encoded(slots=event().slots * 0), "a slot stands twice"),
        (encoded(slots=event().slots + np.int32(SLOTS)), "a slot stands twice"),
        (encoded(slots=event().slots - np.int32(SLOTS)), "a slot stands twice"),
        (encoded(dense=np.full(DIM, np.nan, np.float32)), "nan long"),
        (encoded(dense=np.full(DIM, np.inf, np.float32)), "inf long"),
        (encoded(dense=event().dense * 2), "together they have length 1"),
        (encoded(weights=event().weights * np.float32(np.nan)), "nan long"),
        (encoded(dense=event().dense * 0, weights=event().weights * 0), "0 long"),
    ],
)
def test_a_refused_vector_says_why_in_one_line(text: object, reason: str) -> None:
    with pytest.raises(InputError, match=f"^vectors: .*{reason}") as error:
        EventVector.read(text)
    assert len(str(error.value)) < 200
    assert str(error.value).isprintable()


@given(st.data())
def test_no_damage_gets_through_or_raises_anything_else(data: st.DataObject) -> None:
    raw = bytearray(base64.b64decode(event().encoded()))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    del raw[data.draw(st.integers(0, 2 * len(raw))) :]
    try:
        found = EventVector.read(base64.b64encode(raw).decode())
    except InputError:
        return
    assert np.isfinite(found.scores(posts())).all() or len(found.dense) != DIM


def refused(act: Callable[[], object], why: str) -> None:
    with pytest.raises(MismatchError, match=why):
        act()


def test_another_model_is_told() -> None:
    refused(lambda: event().as_row(0, ""), "has words, which the model does not read")
    narrow = EventVector.of(event().dense[1:], event().slots, event().weights)
    refused(lambda: narrow.scores(posts()), f"{DIM - 1} axes, the model has {DIM}")


def test_unknown_tensors_are_passed_over() -> None:
    text = encoded(more=np.zeros(3, np.int8))
    assert "more" in load(base64.b64decode(text))
    assert EventVector.read(text).encoded() == event().encoded()


def test_a_threshold_is_the_score_that_so_many_background_posts_reach() -> None:
    texts = [" ".join(words) for words in permutations(["storm", "cat", "music", "fire", "the"], 3)]
    background, vector = small_encoder().posts(texts), event()
    cut = thresholds(background, vector.as_row(0.6, small_encoder().digest), 0.1)
    assert cut.tolist() == [sorted(vector.scores(background).tolist())[-round(len(texts) / 10)]]
