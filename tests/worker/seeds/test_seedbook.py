"""The book of seeds: how many there may be, which are paused, and what keys cost."""

from tests.worker.small import small_encoder, value
from worker.config import Limits
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.set import SeedBook


def test_of_too_many_the_first_by_their_ids_stay_whatever_came_first() -> None:
    names = [f"s{n}" for n in (3, 1, 2, 0)]
    for order in (names, names[::-1]):
        book = SeedBook(Limits(seeds=2))
        for name in order:
            book.apply(name.encode(), value(text=name))
        assert [seed.id for seed in book.seeds] == ["s0", "s1"]
        assert [seed.id for seed in book.refused] == ["s2", "s3"]
        assert {seed.reason.split(":")[0] for seed in book.refused} == {"limits.seeds"}
        book.apply(b"s0", None)
        assert [seed.id for seed in book.seeds] == ["s1", "s2"]


def test_a_paused_seed_is_neither_compared_with_nor_counted() -> None:
    book = SeedBook(Limits(seeds=1))
    book.apply(b"a", value(text="Dam", paused=True))
    book.apply(b"b", value(text="Fire", paused=False))
    made = SeedEmbedder(small_encoder(), 0.01, 0.4).make(book)
    assert [seed.id for seed in made.seeds] == ["b"]
    assert [seed.id for seed in made.paused] == ["a"]
    assert made.refused == ()
    alone = SeedBook()
    alone.apply(b"b", value(text="Fire"))
    assert made.digest == SeedEmbedder(small_encoder(), 0.01, 0.4).make(alone).digest


def test_keys_of_any_length_are_told_apart_and_cost_little() -> None:
    book = SeedBook()
    for end in (b"a", b"b"):
        book.apply(b"k" * 100_000 + end, value(text="Dam"))
    refused = [len(book.refused)]
    book.apply(b"k" * 100_000 + b"a", None)
    assert [*refused, len(book.refused)] == [2, 1]
    assert max(len(key or b"") for key in book._latest) <= 256
