"""The star transformer against an oracle that reads one token after another, in float64."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from encoder.model.star_settings import StarSettings, distance_buckets
from encoder.model.star_transformer import StarTransformer
from tests.encoder.slow_star import bisect_entmax

F64 = NDArray[np.float64]
SMALL = {"vocabulary": 30, "layers": 2, "width": 12, "heads": 3, "inner": 20, "dim": 5}
PADDING = 1


def make_star(window: int | None, adaptive: bool, bridge: int | None = None) -> StarTransformer:
    torch.manual_seed(0)
    settings = StarSettings(**SMALL, window=window, adaptive=adaptive, bridge=bridge)
    star = StarTransformer(settings).double().eval()
    with torch.no_grad():
        for parameter in star.parameters():
            parameter.normal_(0, 0.5)
    return star


def bucket(distance: int) -> int:
    """As published: 8 exact distances, then 8 by logarithm up to 128, for each direction."""
    far = abs(distance)
    if far >= 8:
        far = min(15, 8 + int(math.log(far / 8) / math.log(16) * 8))
    return far + (16 if distance > 0 else 0)


def norm(x: F64, weights: dict[str, F64], name: str) -> F64:
    apart = (x - x.mean()) / np.sqrt(x.var() + 1e-5)
    return np.asarray(apart * weights[f"{name}.weight"] + weights[f"{name}.bias"])


def gelu(x: F64) -> F64:
    return np.asarray([v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in x])


def oracle(star: StarTransformer, ids: list[int]) -> F64:
    weights = {name: x.detach().numpy() for name, x in star.state_dict().items()}
    settings, heads = star.settings, star.settings.heads
    states = [
        norm(weights["tokens.weight"][t] + weights["positions.weight"][i + 2], weights, "norm")
        for i, t in enumerate(ids)
    ]

    def affine(name: str, x: F64) -> F64:
        return np.asarray(weights[f"{name}.weight"] @ x + weights[f"{name}.bias"])

    def sees(i: int, j: int) -> bool:
        return settings.window is None or 0 in (i, j) or abs(i - j) <= settings.window

    for number in range(settings.layers):
        own = f"layers.{number}"
        parts = [
            affine(f"{own}.attention.query_key_value", x).reshape(3, heads, -1) for x in states
        ]
        after = []
        for i, x in enumerate(states):
            seen = [j for j in range(len(ids)) if sees(i, j)]
            mixed = []
            for h in range(heads):
                width = parts[i].shape[2]
                logits = [
                    parts[i][0, h] @ parts[j][1, h] / math.sqrt(width)
                    + weights["distances.weight"][bucket(j - i), h]
                    for j in seen
                ]
                alpha = 1.0
                if settings.adaptive:
                    raw = weights[f"{own}.attention.raw_alpha"][0 if i == 0 else 1, h]
                    alpha = 1 + 1 / (1 + math.exp(-raw))
                shares = bisect_entmax(np.array(logits), alpha)
                mixed.append(sum(p * parts[j][2, h] for p, j in zip(shares, seen, strict=True)))
            y = affine(f"{own}.attention.output", np.concatenate(mixed))
            y = norm(x + y, weights, f"{own}.attention_norm")
            wide = gelu(affine(f"{own}.widen", y))
            after.append(norm(y + affine(f"{own}.narrow", wide), weights, f"{own}.norm"))
        if number == settings.bridge:
            after = [x + affine("bridge", x) for x in after]
        states = after
    mean = np.mean(states, axis=0)
    return np.asarray(weights["axes.weight"] @ (mean / np.linalg.norm(mean)))


@pytest.mark.parametrize("bridge", [None, 0])
@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("window", [None, 1, 4])
def test_every_text_of_a_batch_has_the_vector_of_the_oracle(
    window: int | None, adaptive: bool, bridge: int | None
) -> None:
    star = make_star(window, adaptive, bridge)
    rng = np.random.default_rng(1)
    texts = [rng.integers(2, 30, length).tolist() for length in (1, 2, 9, 14)]
    ids = torch.full((len(texts), 14), PADDING)
    real = torch.zeros(ids.shape, dtype=torch.bool)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor(text)
        real[row, : len(text)] = True
    vectors = star(ids, real).detach().numpy()
    for vector, text in zip(vectors, texts, strict=True):
        np.testing.assert_allclose(vector, oracle(star, text), rtol=0, atol=1e-5)


def test_distances_share_buckets_as_mpnet_was_trained_with() -> None:
    distances = np.arange(-300, 300)
    assert distance_buckets(distances).tolist() == [bucket(d) for d in distances.tolist()]


def test_a_window_as_wide_as_the_text_is_full_attention() -> None:
    whole, wide = make_star(None, False), make_star(13, False)
    ids = torch.arange(2, 16).unsqueeze(0)
    real = torch.ones_like(ids, dtype=torch.bool)
    assert torch.equal(whole(ids, real), wide(ids, real))
