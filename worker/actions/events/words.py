"""The words that gained and lost: a vector has slots, so words come from texts that fill them."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from encoder.encoder import Encoder
from encoder.score.lexical import SLOTS, slot
from encoder.text.clean import POST_CHARS
from worker.seeds.vectors import EventVector

TOLD = 10
HEAVIEST = 60  # words of an article that are told
MOST_PARTS = 200  # of texts, each as long as a post may be
MOST_CHARS = 40  # of a word

Told = list[tuple[str, float]]


def moved_words(
    enc: Encoder, start: EventVector, end: EventVector, texts: Iterable[str]
) -> tuple[Told, Told]:
    """The words of the texts whose weights rose and fell most, each with the difference."""
    moves = weights_of(end) - weights_of(start)  # [slots]
    named = slots_of(enc, texts)
    moved = [(word[:MOST_CHARS], round(float(moves[place]), 4)) for place, word in named.items()]
    moved.sort(key=lambda pair: (-pair[1], pair[0]))
    gained = [pair for pair in moved[:TOLD] if pair[1] > 0]
    return gained, [pair for pair in reversed(moved[-TOLD:]) if pair[1] < 0]


def heaviest_words(enc: Encoder, title: str, text: str) -> Told:
    """The words that weigh most in an article, each with its weight there, the heaviest first."""
    row = enc.articles([(title, text)]).lexical
    weights = dict(zip(row.slots.tolist(), row.weights.tolist(), strict=True))
    named = slots_of(enc, [title, text])
    found = [(word[:MOST_CHARS], round(weights.get(at, 0.0), 4)) for at, word in named.items()]
    return sorted((pair for pair in found if pair[1]), key=lambda pair: -pair[1])[:HEAVIEST]


def slots_of(enc: Encoder, texts: Iterable[str]) -> dict[int, str]:
    """The first word of the texts that falls into each slot."""
    found: dict[int, str] = {}
    for part in _parts(texts):
        for word, weight in enc.tokenize(part):
            if weight:
                found.setdefault(slot(word), word)
    return found


def weights_of(vector: EventVector) -> NDArray[np.float64]:
    """The weight of every slot: [slots]."""
    weights = np.zeros(SLOTS)
    weights[vector.slots] = vector.weights
    return weights


def _parts(texts: Iterable[str]) -> list[str]:
    """The texts in parts that are read as posts are; of very many the first."""
    parts: list[str] = []
    for text in texts:
        if len(parts) >= MOST_PARTS:
            break
        parts += [text[at : at + POST_CHARS] for at in range(0, len(text), POST_CHARS)]
    return parts[:MOST_PARTS]
