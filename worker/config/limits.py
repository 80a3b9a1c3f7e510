"""The limits of messages: plain values that the pure core takes as an argument."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits under which no message costs more than a few ordinary ones of its size."""

    post_bytes: int = 2**20
    article_bytes: int = 2**19
    list_items: int = 10_000
    marks: int = 30
    seeds: int = 100_000


DEFAULT_LIMITS = Limits()
