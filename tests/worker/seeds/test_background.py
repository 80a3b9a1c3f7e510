"""The two sides of the background: nothing is lost, and copies stay together."""

import numpy as np

from encoder import Embeddings
from tests.worker.small import WORDS, small_encoder
from worker.seeds.background import sides_of


def keys(rows: Embeddings) -> list[tuple[bytes, bytes]]:
    ends = rows.lexical.indptr
    return [
        (rows.dense[i].tobytes(), rows.lexical.slots[ends[i] : ends[i + 1]].tobytes())
        for i in range(len(rows))
    ]


def test_every_post_is_on_one_side_whatever_the_order_and_its_copies_with_it() -> None:
    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice(list(WORDS), 4)) for _ in range(400)]
    background = small_encoder().posts([*texts, *texts[:50]])
    one, other = sides_of(background)
    assert sorted(keys(one) + keys(other)) == sorted(keys(background))
    assert not set(keys(one)) & set(keys(other))
    assert 25 < len(one) < 100
    again, _ = sides_of(background[rng.permutation(len(background))])
    assert sorted(keys(again)) == sorted(keys(one))


def test_the_everyday_posts_of_a_model_are_there_to_be_split() -> None:
    background = small_encoder().background
    one, other = sides_of(background)
    assert len(one) + len(other) == len(background)
    assert len(sides_of(background[:0])[0]) == 0
