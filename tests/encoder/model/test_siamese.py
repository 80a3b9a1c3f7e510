from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from encoder.errors import InputError
from encoder.model.config import AstConfig, Side
from encoder.model.siamese import Siamese
from encoder.model.star import AdaptiveStar
from encoder.model.weights import Weights, random_weights
from tests.encoder.slow_star import mild_weights, reference_star

PLAIN = AstConfig(dim=12, heads=3, head_dim=4, window=2)
RESIDUAL = replace(PLAIN, residual=True, layers=2)
VOCABULARY = 40


def draw(lengths: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    ids = np.random.default_rng(0).integers(0, VOCABULARY, sum(lengths))
    return torch.tensor(ids), torch.tensor(np.cumsum((0, *lengths)))


@pytest.mark.parametrize("config", [PLAIN, RESIDUAL])
def test_weights_come_back_as_they_went_in(config: AstConfig) -> None:
    weights = random_weights(config, VOCABULARY)
    back = Siamese.from_weights(weights).weights()
    assert back.config == config
    for name, value in weights.tensors.items():
        np.testing.assert_allclose(back[name], value, rtol=2e-6, err_msg=name)


def test_alphas_and_gates_at_their_ends_come_back_inside_their_range() -> None:
    weights = random_weights(RESIDUAL, VOCABULARY)
    alpha, gates = weights["layers.0.ring.alpha"], weights["residual.gates"]
    alpha[:] = [np.nextafter(np.float32(1), np.float32(2)), 2, 1.5]
    gates[0, :3] = [1e-37, 1e37, 1]
    back = Siamese.from_weights(weights).weights()
    assert np.abs(back["layers.0.ring.alpha"] - alpha).max() <= 2.5e-7
    np.testing.assert_allclose(back["residual.gates"], gates, rtol=1e-5)


def test_what_training_drives_far_out_can_still_be_saved() -> None:
    model = Siamese.from_weights(random_weights(RESIDUAL, VOCABULARY))
    assert model.residual is not None
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("raw_alpha"):
                parameter.copy_(torch.tensor([-100.0, 0.0, 100.0]))
        model.residual.log_gates[0, :2] = torch.tensor([-200.0, 200.0])
    saved = model.weights()  # checked for its ranges by Weights itself
    assert saved["layers.1.star.alpha"].tolist() == pytest.approx([1, 1.5, 2])
    assert isinstance(Siamese.from_weights(saved), Siamese)


def test_a_new_model_starts_at_the_gated_mean_and_learns() -> None:
    vectors = np.random.default_rng(0).standard_normal((VOCABULARY, 12)).astype(np.float32)
    model = Siamese.initial(RESIDUAL, vectors)
    ids, offsets = draw((5, 2, 7))
    y = model(ids, offsets, Side.POST)
    assert np.allclose(y[1].detach(), vectors[ids[5:7]].mean(0), atol=1e-6)
    alphas = model.weights()["layers.0.ring.alpha"]
    assert ((alphas > 1) & (alphas < 2)).all()
    assert len(set(alphas.tolist())) == RESIDUAL.heads

    goal, losses = torch.randn(3, 12, generator=torch.Generator().manual_seed(0)), []
    parameters = list(model.parameters())
    for _ in range(40):
        loss = (model(ids, offsets, Side.POST) - goal).square().mean()
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.sub_(0.3 * gradient)
    assert losses[-1] < 0.7 * losses[0]
    assert (model.weights()["residual.gain"] != 0).any()


def test_the_same_seed_gives_the_same_start() -> None:
    vectors = np.ones((VOCABULARY, 12), np.float32)
    first, again, other = (Siamese.initial(PLAIN, vectors, seed).weights() for seed in (1, 1, 2))

    def key(weights: Weights) -> bytes:
        return weights["layers.0.ring.query.weight"].tobytes()

    assert key(first) == key(again) != key(other)


def test_vectors_of_another_width_are_refused() -> None:
    with pytest.raises(InputError, match=r"expected \[words, 12\]"):
        Siamese.initial(PLAIN, np.ones((VOCABULARY, 11), np.float32))


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


def draw_vectors(weights: Weights, lengths: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """The vectors of random tokens [N, d], and the offsets of texts of these lengths."""
    ids, offsets = draw(lengths)
    return torch.tensor(weights.embedding[ids.numpy()]), offsets


@pytest.mark.parametrize("config", SHAPES)
def test_equals_the_loop_in_float32_and_float64(config: AstConfig) -> None:
    weights = random_weights(config, VOCABULARY)
    embedded, offsets = draw_vectors(weights, LENGTHS)
    star = star_of(weights)
    single = star(embedded, offsets).detach().numpy()
    raw = [p for name, p in star.named_parameters() if name.endswith("raw_alpha")]
    alphas = [value for name, value in weights.tensors.items() if name.endswith("alpha")]
    for parameter, alpha in zip(raw, alphas, strict=True):
        exact = torch.tensor(alpha.astype(np.float64) - 1)
        parameter.data = exact.logit(1e-16)
        assert parameter.dtype == torch.float64
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


def test_gradients_are_right_and_reach_every_parameter() -> None:
    weights = mild_weights(SHAPES[1], VOCABULARY)
    embedded, offsets = draw_vectors(weights, (2, 0, 4))
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
    embedded, offsets = draw_vectors(weights, lengths)
    star = star_of(weights)
    x = embedded.requires_grad_()
    y = star(x, offsets)
    assert y.shape == (len(lengths), weights.config.dim)
    assert (y[torch.tensor(lengths, dtype=torch.int64) == 0] == 0).all()
    gradients = torch.autograd.grad(y.square().sum(), [x, *star.parameters()])
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
