from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from encoder.errors import DeviceError, InputError
from encoder.model.config import MAX_TOKENS, AstConfig, Side
from encoder.model.weights import CODES, F32, I32, I64, SCALES, Weights, random_weights
from encoder.readers.gated_mean import GatedMeanKernel
from encoder.readers.torch_backend import TorchBackend
from tests.encoder.slow_star import mild_weights, reference, token_shares

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
    parts = GatedMeanKernel(WEIGHTS).parts(IDS, OFFSETS, side, pairs, rows)
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
    reader = GatedMeanKernel(WEIGHTS)
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


DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
WORDS = 60
SMALL = AstConfig(dim=12, heads=3, head_dim=4, window=2)
SHAPES = [
    SMALL,
    replace(SMALL, residual=True),
    AstConfig(dim=10, heads=2, head_dim=8, window=1, residual=True),
    AstConfig(dim=7, heads=1, head_dim=3, window=0),
    AstConfig(dim=9, heads=4, head_dim=2, window=4),
    replace(SMALL, layers=2, residual=True),
    AstConfig(),
]
UNEVEN = (3, 0, 1, 20, 2, 0, 7, 70, 20, 4, 1)


def draw(lengths: tuple[int, ...], seed: int = 0) -> tuple[I32, I64]:
    ids = np.random.default_rng(seed).integers(0, WORDS, sum(lengths)).astype(np.int32)
    return ids, np.cumsum((0, *lengths)).astype(np.int64)


def oracle(weights: Weights, ids: I32, offsets: I64, side: Side) -> F32:
    rows = [
        reference(weights, ids[offsets[i] : offsets[i + 1]].tolist(), side)
        for i in range(len(offsets) - 1)
    ]
    return np.array(rows, np.float32)


def assert_close(y: F32, expected: F32) -> None:
    assert y.shape == expected.shape
    assert y.dtype == np.float32
    scale = np.abs(expected).max(1, keepdims=True, initial=0)
    assert (np.abs(y - expected) <= 1e-5 * scale).all()


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize("config", SHAPES)
def test_vectors_are_the_oracles_in_parts_of_any_size(
    config: AstConfig, side: Side, name: str
) -> None:
    weights = mild_weights(config, WORDS)
    backend = TorchBackend(weights, name)
    ids, offsets = draw(UNEVEN)
    expected = oracle(weights, ids, offsets, side)
    for most in (2048, 80, 1):
        backend.tokens_at_once = most
        assert_close(backend.forward(ids, offsets, side), expected)


def cramped(model: torch.nn.Module, room: int) -> Any:
    """The model on a device with room for so many tokens."""

    def forward(ids: torch.Tensor, offsets: torch.Tensor, side: Side) -> torch.Tensor:
        if len(ids) > room:
            raise torch.OutOfMemoryError
        return torch.as_tensor(model(ids, offsets, side))

    return forward


def test_full_memory_halves_the_parts_until_they_fit() -> None:
    weights = random_weights(SMALL, WORDS)
    backend = TorchBackend(weights, "cpu")
    ids, offsets = draw((5,) * 100)
    whole = backend.forward(ids, offsets, Side.POST)
    backend.model = cramped(backend.model, 200)
    assert_close(backend.forward(ids, offsets, Side.POST), whole)
    assert backend.tokens_at_once == 128
    backend.model = cramped(backend.model, 0)
    with pytest.raises(DeviceError, match="too little free memory"):
        backend.forward(*draw((5,)), Side.POST)


@pytest.mark.parametrize(
    ("ids", "offsets", "key"),
    [([1, 2], [0, 1], "offsets"), ([1, 2], [0, 2, 1, 2], "offsets"), ([1, WORDS], [0, 2], "ids")],
)
def test_bad_ids_and_offsets_are_refused(ids: list[int], offsets: list[int], key: str) -> None:
    backend = TorchBackend(random_weights(SMALL, WORDS), "cpu")
    with pytest.raises(InputError, match=key):
        backend.forward(np.array(ids, np.int32), np.array(offsets, np.int64), Side.POST)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_missing_gpu_is_one_plain_line() -> None:
    with pytest.raises(DeviceError, match="cuda does not answer"):
        TorchBackend(random_weights(SMALL, WORDS), "cuda")
