"""The check of token ids before compiled code or a GPU uses them as indices."""

import numpy as np

from encoder.errors import InputError
from encoder.model.weights import I32, I64


def check_tokens(ids: I32, offsets: I64, vocabulary: int) -> None:
    """Raise InputError if text i is not ids[offsets[i] : offsets[i + 1]] of the vocabulary."""
    lengths = np.diff(offsets)
    if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(ids) or (lengths < 0).any():
        raise InputError(f"offsets: must rise from 0 to the number of ids, {len(ids)}")
    # Read as unsigned, a negative id is too large as well.
    if ids.view(np.uint32).max(initial=0) >= vocabulary:
        raise InputError(f"ids: some are outside the vocabulary of {vocabulary}")
