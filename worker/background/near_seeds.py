"""Posts that speak of an event which the seeds are on now: they are what is looked for."""

import numpy as np
from numpy.typing import NDArray

from encoder.embeddings import Embeddings
from encoder.encoder import Encoder
from worker.background.file import LEAST

# Measured on three crises, one post in 200 on topic (docs/judging.md): without it the event raises
# its own threshold until half its posts are lost; from 1.0 on everyday lookalikes go as well.
FACTOR = np.float32(1.2)
BLOCK = 1024  # posts at a time


def speak_of_seeds(
    posts: Embeddings, seeds: Embeddings, enc: Encoder, rate: float
) -> NDArray[np.bool_]:
    """Which posts score well above a seed's automatic threshold on the model's background: [n]."""
    told = max(rate, LEAST / max(len(enc.background), 1))  # as fine as that background can tell
    cuts = FACTOR * enc.thresholds(seeds, told)  # [k]
    blocks = (posts[start : start + BLOCK] for start in range(0, len(posts), BLOCK))
    found = [(block.similarity(seeds) >= cuts).any(axis=1) for block in blocks]
    return np.concatenate([np.zeros(0, np.bool_), *found])
