"""The whole kernel against the float64 oracle, and against itself."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoder.backends.kernel import KernelBackend, supported
from encoder.errors import InputError
from encoder.model.config import AstConfig, Side
from encoder.model.weights import F32, I32, I64, Weights, random_weights
from tests.encoder.reference import reference

VOCABULARY = 200
SMALL: dict[str, Any] = {"dim": 40, "heads": 3, "head_dim": 6}


def texts(lengths: list[int], seed: int = 0) -> tuple[I32, I64]:
    ids = np.random.default_rng(seed).integers(0, VOCABULARY, sum(lengths)).astype(np.int32)
    return ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def expected(weights: Weights, ids: I32, offsets: I64, side: Side) -> F32:
    rows = [reference(weights, ids[a:b].tolist(), side) for a, b in pairwise(offsets)]
    return np.array(rows, np.float32)


def assert_close(got: F32, right: F32, tolerance: float = 2e-3) -> None:
    norms = np.linalg.norm(right, axis=1)
    errors = np.linalg.norm(got - right, axis=1)
    assert (errors <= tolerance * norms).all(), float((errors / np.maximum(norms, 1e-9)).max())


@pytest.mark.parametrize(
    "shape",
    [
        {"dim": 300, "heads": 10, "head_dim": 30, "window": 2},
        {**SMALL, "residual": True},
        {"dim": 1, "heads": 1, "head_dim": 1, "window": 1},
        {"dim": 400, "heads": 17, "head_dim": 33, "window": 3, "residual": True},
    ],
)
def test_the_kernel_is_the_model(shape: dict[str, Any]) -> None:
    weights = random_weights(AstConfig(**shape), VOCABULARY)
    ids, offsets = texts([0, 1, 2, 3, 5, 1, 18, 0, 4])
    backend = KernelBackend(weights)
    for side in Side:
        right = expected(weights, ids, offsets, side)
        assert_close(backend.forward(ids, offsets, side), right)


def test_alpha_at_both_ends_and_large_logits() -> None:
    config = AstConfig(**SMALL, window=2)
    weights = random_weights(config, VOCABULARY)
    ids, offsets = texts([1, 12, 40])
    for alpha in (np.nextafter(np.float32(1), np.float32(2)), 1.001, 2.0):
        named = weights.tensors()
        for part in ("ring", "star"):
            named[f"layers.0.{part}.alpha"] = np.full(3, alpha, np.float32)
            named[f"layers.0.{part}.key.weight"] = named[f"layers.0.{part}.key.weight"] * 3
        sharp = Weights.from_tensors(config, named)
        got = KernelBackend(sharp).forward(ids, offsets, Side.POST)
        assert np.isfinite(got).all()
        if alpha > 1.0005:
            assert_close(got, expected(sharp, ids, offsets, Side.POST), 5e-3)


def test_a_text_of_2048_tokens() -> None:
    weights = random_weights(AstConfig(**SMALL, residual=True), VOCABULARY)
    ids, offsets = texts([2048])
    got = KernelBackend(weights).forward(ids, offsets, Side.ARTICLE)
    assert_close(got, expected(weights, ids, offsets, Side.ARTICLE))


@pytest.fixture(scope="module")
def backends() -> tuple[KernelBackend, KernelBackend]:
    weights = random_weights(AstConfig(**SMALL, residual=True), VOCABULARY)
    return KernelBackend(weights, 1), KernelBackend(weights, 3)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=120), st.integers(0, 9))
def test_bits_depend_on_the_text_alone(
    backends: tuple[KernelBackend, KernelBackend], lengths: list[int], seed: int
) -> None:
    one, three = backends
    ids, offsets = texts(lengths, seed)
    together = one.forward(ids, offsets, Side.POST)
    assert (three.forward(ids, offsets, Side.POST) == together).all()
    for i in range(0, len(lengths), 7):
        alone = ids[offsets[i] : offsets[i + 1]]
        single = one.forward(alone, np.array([0, len(alone)]), Side.POST)
        assert (single[0] == together[i]).all()


def test_several_python_threads_share_a_backend(
    backends: tuple[KernelBackend, KernelBackend],
) -> None:
    ids, offsets = texts([30] * 300)
    right = backends[0].forward(ids, offsets, Side.ARTICLE)
    with ThreadPoolExecutor(4) as pool:
        runs = pool.map(lambda _: backends[1].forward(ids, offsets, Side.ARTICLE), range(12))
        assert all((run == right).all() for run in runs)


def test_no_text_at_all(backends: tuple[KernelBackend, KernelBackend]) -> None:
    ids, offsets = texts([])
    assert backends[1].forward(ids, offsets, Side.POST).shape == (0, 40)


@pytest.mark.parametrize(
    ("ids", "offsets", "message"),
    [
        ([0, VOCABULARY], [0, 2], "outside the vocabulary"),
        ([-1], [0, 1], "outside the vocabulary"),
        ([1, 2], [0, 1], "offsets"),
        ([1, 2], [1, 2], "offsets"),
        ([1, 2], [0, 2, 1, 2], "offsets"),
        ([1] * 2049, [0, 2049], "2049 tokens"),
        ([], [], "offsets"),
    ],
)
def test_what_would_read_outside_an_array_is_refused(
    backends: tuple[KernelBackend, KernelBackend],
    ids: list[int],
    offsets: list[int],
    message: str,
) -> None:
    with pytest.raises(InputError, match=message):
        backends[0].forward(np.array(ids, np.int32), np.array(offsets, np.int64), Side.POST)


def test_what_is_not_supported_says_why() -> None:
    assert supported(AstConfig()) is None
    assert "layers" in str(supported(AstConfig(layers=2)))
    assert "window" in str(supported(AstConfig(window=0)))
    assert "window" in str(supported(AstConfig(window=4)))
    assert "head_dim" in str(supported(AstConfig(head_dim=65)))
    assert "dim" in str(supported(AstConfig(dim=513)))
    with pytest.raises(InputError, match="torch"):
        KernelBackend(random_weights(AstConfig(**SMALL, layers=2), 9))
    with pytest.raises(InputError, match="threads"):
        KernelBackend(random_weights(AstConfig(**SMALL), 9), 0)


def test_a_table_out_of_the_cache_gives_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("encoder.support.shared.FOLDER", tmp_path)
    weights = random_weights(AstConfig(**SMALL, residual=True), 2000)
    ids, offsets = texts([30, 0, 1])
    right = KernelBackend(weights).forward(ids, offsets, Side.POST)
    assert list(tmp_path.iterdir()) == []
    made = KernelBackend(weights, 2, "name").forward(ids, offsets, Side.POST)
    found = KernelBackend(weights, 1, "name").forward(ids, offsets, Side.POST)
    assert len(list(tmp_path.iterdir())) == 1
    assert (made == right).all()
    assert (found == right).all()
