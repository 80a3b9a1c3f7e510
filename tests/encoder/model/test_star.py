"""The star against the oracle's loop, alone and in any company."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from encoder.model.config import AstConfig
from encoder.model.siamese import Siamese
from encoder.model.star import AdaptiveStar
from encoder.model.weights import Weights, random_weights
from tests.encoder.reference import mild_weights, reference_star

VOCABULARY = 40
SHAPES = [
    AstConfig(dim=12, heads=3, head_dim=4, window=1, layers=1),
    AstConfig(dim=10, heads=2, head_dim=5, window=2, layers=3),
    AstConfig(dim=7, heads=1, head_dim=3, window=0, layers=2),
    AstConfig(dim=9, heads=4, head_dim=2, window=5, layers=1),
]
LENGTHS = (3, 0, 1, 17, 2, 0, 5)


def star_of(weights: Weights) -> AdaptiveStar:
    star = Siamese.from_weights(weights).star
    assert star is not None
    return star


def draw(
    weights: Weights, lengths: tuple[int, ...], seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """The vectors of random tokens [N, d], and the offsets of texts of these lengths."""
    ids = np.random.default_rng(seed).integers(0, VOCABULARY, sum(lengths))
    return torch.tensor(weights.embedding[ids]), torch.tensor(np.cumsum((0, *lengths)))


@pytest.mark.parametrize("config", SHAPES)
def test_equals_the_loop_in_float32_and_float64(config: AstConfig) -> None:
    weights = random_weights(config, VOCABULARY)
    embedded, offsets = draw(weights, LENGTHS)
    star = star_of(weights)
    single = star(embedded, offsets).detach().numpy()
    for (name, raw), alpha in zip(raw_alphas(star), alphas(weights), strict=True):
        raw.data = torch.tensor(alpha - 1, dtype=torch.float64).logit(1e-16)
        assert raw.dtype == torch.float64, name
    double = star.double()(embedded.double(), offsets).detach().numpy()
    for i, (start, end) in enumerate(pairwise(offsets.tolist())):
        if start == end:
            assert (single[i] == 0).all()
            assert (double[i] == 0).all()
            continue
        expected = reference_star(weights, embedded[start:end].double().numpy()).output
        scale = np.abs(expected).max()
        assert np.abs(single[i] - expected).max() <= 1e-5 * scale
        assert np.abs(double[i] - expected).max() <= 1e-9 * scale


def raw_alphas(star: AdaptiveStar) -> list[tuple[str, torch.nn.Parameter]]:
    return [(name, p) for name, p in star.named_parameters() if name.endswith("raw_alpha")]


def alphas(weights: Weights) -> list[np.ndarray]:
    named = weights.tensors
    return [named[name].astype(np.float64) for name in named if name.endswith("alpha")]


def test_gradients_are_right_and_reach_every_parameter() -> None:
    weights = mild_weights(SHAPES[1], VOCABULARY)
    embedded, offsets = draw(weights, (2, 0, 4))
    star = star_of(weights).double()
    x = embedded.double().requires_grad_()
    parameters = list(star.parameters())

    def run(x: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(star(x, offsets))

    assert torch.autograd.gradcheck(run, (x, *parameters), fast_mode=True)
    gradients = torch.autograd.grad(run(x).square().sum(), parameters)
    for (name, _), gradient in zip(star.named_parameters(), gradients, strict=True):
        if not name.endswith("key.bias"):  # a shift of all logits changes nothing
            assert (gradient != 0).any(), name


@pytest.mark.parametrize("lengths", [(), (0,), (0, 0), (0, 2, 0)])
def test_empty_texts_are_zero_and_their_gradients_finite(lengths: tuple[int, ...]) -> None:
    weights = random_weights(SHAPES[0], VOCABULARY)
    embedded, offsets = draw(weights, lengths)
    star = star_of(weights)
    x = embedded.requires_grad_()
    y = star(x, offsets)
    assert y.shape == (len(lengths), weights.config.dim)
    assert (y[torch.tensor(lengths, dtype=torch.int64) == 0] == 0).all()
    gradients = torch.autograd.grad(y.square().sum(), [x, *star.parameters()])
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
