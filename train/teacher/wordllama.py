"""WordLlama: static vectors of tokens, whose mean is the vector of a text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from encoder.embeddings import unit_rows
from encoder.errors import InputError
from encoder.model.weights import F32

WORDLLAMA_WIDTH = 256


class WordLlama:
    """The vectors that the optional package wordllama carries."""

    def __init__(self) -> None:
        try:
            import wordllama
        except ImportError as error:
            raise InputError("wordllama is not installed; call `make peers`") from error
        folder = Path(wordllama.__file__).parent
        self._model: Any = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)

    def texts(self, texts: Sequence[str]) -> F32:
        """Unit vectors: [n, 256]."""
        return unit_rows(np.asarray(self._model.embed(list(texts)), np.float32))
