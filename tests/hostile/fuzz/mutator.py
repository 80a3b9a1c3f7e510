"""Inputs out of good ones: flipped, cut, spliced, repeated, and sprinkled with words that matter.

An input is a function of its target's name and its number alone, so that any can be made again.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

Step = Callable[[random.Random, bytearray, "Mutator"], None]

EDGES = [
    (edge & (2 ** (8 * size) - 1)).to_bytes(size, order)
    for size in (1, 2, 4, 8)
    for edge in (0, 1, -1, 2 ** (8 * size - 1) - 1, 2 ** (8 * size - 1), 127, 128, 255)
    for order in ("big", "little")
]
MAX_STEPS = 6
MAX_RUN = 2**16


@dataclass(frozen=True)
class Mutator:
    corpus: Sequence[bytes]
    tokens: Sequence[bytes]
    largest: int = 2**17

    def made(self, name: str, number: int) -> bytes:
        """The input of this number: now and then one of the corpus as it is."""
        rng = random.Random(f"{name}:{number}")
        data = bytearray(rng.choice(self.corpus))
        for _ in range(rng.randint(0, MAX_STEPS)):
            rng.choice(STEPS)(rng, data, self)
            del data[self.largest :]
        return bytes(data)


def place(rng: random.Random, data: bytearray) -> int:
    return rng.randint(0, len(data))


def span(rng: random.Random, data: bytearray) -> slice:
    start = place(rng, data)
    return slice(start, start + rng.choice([1, 2, 4, 16, 64, 1024, len(data)]))


def flip(rng: random.Random, data: bytearray, _: Mutator) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def scribble(rng: random.Random, data: bytearray, _: Mutator) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.randrange(256)


def cut(rng: random.Random, data: bytearray, _: Mutator) -> None:
    del data[span(rng, data)]


def end(rng: random.Random, data: bytearray, _: Mutator) -> None:
    del data[place(rng, data) :]


def insert(rng: random.Random, data: bytearray, mutator: Mutator) -> None:
    at = place(rng, data)
    data[at:at] = rng.choice(mutator.tokens)


def replace(rng: random.Random, data: bytearray, mutator: Mutator) -> None:
    data[span(rng, data)] = rng.choice(mutator.tokens)


def number(rng: random.Random, data: bytearray, _: Mutator) -> None:
    edge, at = rng.choice(EDGES), place(rng, data)
    data[at : at + len(edge)] = edge


def splice(rng: random.Random, data: bytearray, mutator: Mutator) -> None:
    other = bytearray(rng.choice(mutator.corpus))
    at = place(rng, data)
    data[at:at] = other[span(rng, other)]


def repeat(rng: random.Random, data: bytearray, mutator: Mutator) -> None:
    run = bytes(data[span(rng, data)]) if rng.random() < 0.5 else rng.choice(mutator.tokens)
    if run:
        at, times = place(rng, data), 2 ** rng.randint(1, 14)
        data[at:at] = run * min(times, MAX_RUN // len(run) + 1)


def swap(rng: random.Random, data: bytearray, _: Mutator) -> None:
    cuts = sorted(place(rng, data) for _ in range(3))
    parts = [data[a:b] for a, b in pairwise(cuts)]
    data[cuts[0] : cuts[-1]] = bytearray(chain.from_iterable(reversed(parts)))


STEPS: list[Step] = [
    flip, scribble, cut, end, insert, insert, replace, number, splice, repeat, swap,
]  # fmt: skip
