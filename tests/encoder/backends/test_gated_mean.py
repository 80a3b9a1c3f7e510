"""The gated mean's kernel and its explanations against a float64 loop."""

import numpy as np
import pytest

from encoder.backends.gated_mean import GatedMeanKernel
from encoder.errors import InputError
from encoder.explain.gated_mean import GatedMeanReader
from encoder.model.config import MAX_TOKENS, AstConfig, Side
from encoder.model.weights import CODES, SCALES, random_weights
from tests.encoder.reference import reference, token_shares

GATED = AstConfig(dim=33, star="none", residual=True)
WEIGHTS = random_weights(GATED, 50)
LENGTHS = (3, 0, 1, 40, 7, 0)
IDS = np.random.default_rng(1).integers(0, 50, sum(LENGTHS)).astype(np.int32)
OFFSETS = np.cumsum([0, *LENGTHS], dtype=np.int64)


@pytest.mark.parametrize("side", Side)
def test_vectors_are_those_of_a_slow_loop_with_the_same_bits_alone(side: Side) -> None:
    kernel = GatedMeanKernel(WEIGHTS)
    result = kernel.forward(IDS, OFFSETS, side)
    for text, row in enumerate(result):
        ids = IDS[OFFSETS[text] : OFFSETS[text + 1]]
        exact = reference(WEIGHTS, ids.tolist(), side)
        np.testing.assert_allclose(row, exact, rtol=1e-5, atol=1e-6)
        alone = kernel.forward(ids, np.array([0, len(ids)]), side)
        assert alone.tobytes() == row.tobytes()


@pytest.mark.parametrize("side", Side)
def test_parts_are_those_of_a_slow_loop_and_sum_to_the_cosine(side: Side) -> None:
    rows = np.random.default_rng(2).standard_normal((2, 33)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    pairs = np.array([[3, 1], [0, 0], [3, 0], [1, 1]])
    parts = GatedMeanReader(GatedMeanKernel(WEIGHTS)).parts(IDS, OFFSETS, side, pairs, rows)
    expected: list[float] = []
    for text, row in pairs.tolist():
        ids = IDS[OFFSETS[text] : OFFSETS[text + 1]].tolist()
        if ids:
            y = reference(WEIGHTS, ids, side)
            vectors = WEIGHTS.embedding[ids].astype(np.float64)
            own = token_shares(WEIGHTS, ids, side) * (vectors @ rows[row]) / np.linalg.norm(y)
            expected += own.tolist()
            assert own.sum() == pytest.approx(y @ rows[row] / np.linalg.norm(y))
    np.testing.assert_allclose(parts, expected, rtol=1e-4, atol=1e-6)


def test_attention_is_each_tokens_share_of_the_mean() -> None:
    reader = GatedMeanReader(GatedMeanKernel(WEIGHTS))
    ids = IDS[:9]
    shares = reader.attention(ids, Side.POST)
    np.testing.assert_allclose(shares, token_shares(WEIGHTS, ids.tolist(), Side.POST), rtol=1e-5)
    assert len(reader.attention(IDS[:0], Side.POST)) == 0


def test_what_the_kernel_cannot_read_is_refused() -> None:
    kernel = GatedMeanKernel(WEIGHTS)
    with pytest.raises(InputError, match="outside the vocabulary"):
        kernel.forward(np.array([50], np.int32), np.array([0, 1]), Side.POST)
    long = np.zeros(MAX_TOKENS + 1, np.int32)
    with pytest.raises(InputError, match=f"cut it to {MAX_TOKENS}"):
        kernel.forward(long, np.array([0, len(long)]), Side.POST)
    with pytest.raises(InputError, match="star"):
        GatedMeanKernel(random_weights(AstConfig(dim=4, residual=True), 5))


@pytest.mark.parametrize(
    ("settings", "key"), [({"star": "none"}, "residual"), ({"star": "ring"}, "star")]
)
def test_settings_that_make_no_model_are_refused(settings: dict[str, str], key: str) -> None:
    with pytest.raises(InputError, match=key):
        AstConfig(**settings)  # type: ignore[arg-type]


def test_a_model_without_a_star_holds_nothing_of_one() -> None:
    assert sorted(WEIGHTS.tensors) == [CODES, SCALES, "residual.gates", "residual.positions"]
