"""Texts shared among threads: in order, to the last bit as if each had come alone."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import encoder
from encoder import Encoder
from encoder.embeddings import Embeddings
from encoder.errors import InputError
from encoder.model_directory import write_model
from tests.encoder.small import TOPICS, WORDS, small_model

words = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
texts = st.lists(st.one_of(st.text(max_size=40), words, words.map(lambda w: w * 9)), max_size=30)


@pytest.fixture(scope="module")
def crews(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Encoder]:
    folder = tmp_path_factory.mktemp("models") / "m"
    write_model(folder, small_model())
    return {n: encoder.load(folder, device="cpu", threads=n) for n in (1, 2, 3)}


def same(found: Embeddings, expected: Embeddings) -> bool:
    """Whether both are equal to the last bit."""
    return (
        np.array_equal(found.dense, expected.dense)
        and np.array_equal(found.lexical.indptr, expected.lexical.indptr)
        and np.array_equal(found.lexical.slots, expected.lexical.slots)
        and np.array_equal(found.lexical.weights, expected.lexical.weights)
    )


@settings(max_examples=60, deadline=None)
@given(
    given=texts, threads=st.sampled_from((1, 2, 3)), block=st.integers(1, 9),
    worth=st.integers(1, 200),
)  # fmt: skip
def test_threads_give_each_text_the_bits_it_has_alone(
    crews: dict[int, Encoder], given: list[str], threads: int, block: int, worth: int
) -> None:
    articles = [(text, text) if len(text) % 2 else text for text in given]
    alone = crews[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("encoder.encoder.BLOCK", block)
        patch.setattr("encoder.encoder.WORTH_A_THREAD", worth)
        posts, seeds = crews[threads].posts(iter(given)), crews[threads].articles(articles)
    nothing = alone.posts([])
    assert same(posts, Embeddings.concat([nothing, *(alone.posts([text]) for text in given)]))
    assert same(seeds, Embeddings.concat([nothing, *(alone.articles([t]) for t in articles)]))


def test_a_bad_text_is_named_by_its_place_and_the_encoder_goes_on(
    crews: dict[int, Encoder],
) -> None:
    many = list(TOPICS) * 3000  # more than are read at a time
    crew = crews[2]
    before = crew.posts(many)
    with pytest.raises(InputError, match="11999"):
        crew.posts([*many[:11999], 5])  # type: ignore[list-item]

    def broken() -> Iterator[str]:
        yield from many
        raise OSError("the file is gone")

    with pytest.raises(OSError, match="the file is gone"):
        crew.posts(broken())
    assert same(crew.posts(many), before)
