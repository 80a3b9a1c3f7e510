"""The published form against the oracle written from the paper's equations."""

import numpy as np
import pytest
import torch

from bench.encoder.published import Published, padded_batch
from encoder.errors import InputError
from encoder.model.config import AstConfig, Side
from encoder.model.weights import I32, I64, random_weights
from tests.encoder.reference import reference

LENGTHS = (1, 2, 7, 0, 4, 13)


@pytest.fixture
def texts() -> tuple[I32, I64]:
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.int64)
    return np.random.default_rng(1).integers(0, 50, offsets[-1]).astype(np.int32), offsets


@pytest.mark.parametrize(("window", "layers"), [(2, 1), (1, 1), (0, 2), (3, 2)])
def test_computes_what_the_paper_says_whatever_the_padding(
    window: int, layers: int, texts: tuple[I32, I64]
) -> None:
    config = AstConfig(dim=12, heads=3, head_dim=5, window=window, layers=layers)
    weights = random_weights(config, 50, seed=window)
    ids, offsets = texts
    found = Published(weights, torch.float64).forward(ids, offsets)
    for i, y in enumerate(found):
        exact = reference(weights, ids[offsets[i] : offsets[i + 1]].tolist(), Side.POST)
        np.testing.assert_allclose(y, exact, atol=1e-7)  # α comes by its sigmoid


def test_single_precision_stays_close_to_double(texts: tuple[I32, I64]) -> None:
    weights = random_weights(AstConfig(dim=12, heads=3, head_dim=5), 50)
    single = Published(weights).forward(*texts)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, Published(weights, torch.float64).forward(*texts), atol=1e-4)


def test_a_residual_is_refused() -> None:
    with pytest.raises(InputError, match="the published form has none"):
        Published(random_weights(AstConfig(dim=4, heads=1, head_dim=4, residual=True), 5))


def test_a_batch_is_as_long_as_its_longest_text() -> None:
    padded, real = padded_batch(np.array([9, 5, 6, 7], np.int32), np.array([1, 2, 4], np.int64))
    assert padded.tolist() == [[5, 0], [6, 7]]
    assert real.tolist() == [[True, False], [True, True]]
