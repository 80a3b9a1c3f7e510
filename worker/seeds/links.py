"""The pages that seeds are about: a post that links to one matches, whatever its score."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self


class LinkedSeed(NamedTuple):
    """A row of the seed set that a page stands for, and until when."""

    row: int  # of the seed, or of the profile that replaces it
    expiry: int  # milliseconds, the seed's own


@dataclass(frozen=True, slots=True)
class SeedLinks:
    """The seeds of a set by the canonical address of their page."""

    pages: Mapping[str, Sequence[LinkedSeed]] = field(default_factory=dict)
    hosts: frozenset[str] = frozenset()

    @classmethod
    def build(cls, linked_seeds: Iterable[tuple[str, LinkedSeed]]) -> Self:
        """From pairs of a page and a seed."""
        pages: defaultdict[str, list[LinkedSeed]] = defaultdict(list)
        for page, linked in linked_seeds:
            pages[page].append(linked)
        hosts = (page.partition("/")[0].partition(":")[0] for page in pages)
        return cls(dict(pages), frozenset(hosts))
