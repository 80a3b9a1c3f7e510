"""What is fuzzed: a corpus, the words that matter in it, and what takes an input or refuses it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

from tests.hostile.fuzz.mutator import Mutator

NAMES = ("posts", "seeds", "batches", "pages")


@dataclass(frozen=True)
class Target:
    """One thing that reads what strangers write.

    `feed` tells whether the input was taken; it raises nothing, however wild the input: whatever
    does come out of it is a failure.
    """

    corpus: Sequence[bytes]
    tokens: Sequence[bytes]
    feed: Callable[[bytes], bool]
    ms_per_kb: float  # of CPU, at the most
    largest: int = 2**17

    @property
    def mutator(self) -> Mutator:
        return Mutator(self.corpus, self.tokens, self.largest)


def opened(name: str) -> Target:
    target: Target = import_module(f"tests.hostile.fuzz.targets.{name}").opened()
    return target
