from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from encoder.model.config import AstConfig, Side
from encoder.model.star import Attention
from train.model.encoders import ENCODERS, NGRAMS, Cnn, Gru, Mean, make_encoder

CONFIG = AstConfig(dim=12, heads=2, head_dim=6, window=1)
LENGTHS = (5, 1, 0, 3, 9)


def made(kind: str) -> nn.Module:
    vectors = np.random.default_rng(1).standard_normal((30, CONFIG.dim), dtype=np.float32)
    return make_encoder(kind, CONFIG, vectors, 7).double().eval()


def texts() -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(2)
    offsets = torch.tensor([0, *np.cumsum(LENGTHS)])
    return torch.tensor(rng.integers(0, 30, int(offsets[-1]))), offsets


def one_by_one(kind: str) -> list[Tensor]:
    ids, offsets = texts()
    model = made(kind)
    assert isinstance(model, Mean | Cnn | Gru)
    return [model.embedding[ids[a:b]] for a, b in pairwise(offsets.tolist())]


@pytest.mark.parametrize("kind", list(ENCODERS))
def test_a_vector_never_depends_on_the_batch(kind: str) -> None:
    model, (ids, offsets) = made(kind), texts()
    together = model(ids, offsets, Side.POST)
    assert together.shape == (len(LENGTHS), CONFIG.dim)
    for i, (a, b) in enumerate(pairwise(offsets.tolist())):
        alone = model(ids[a:b], torch.tensor([0, b - a]), Side.POST)
        assert torch.allclose(alone[0], together[i], atol=1e-12)
    assert not together[2].any()


def test_the_mean_is_the_mean() -> None:
    ids, offsets = texts()
    expected = [x.mean(0) if len(x) else torch.zeros(12).double() for x in one_by_one("mean")]
    assert torch.allclose(made("mean")(ids, offsets, Side.POST), torch.stack(expected))


def test_the_cnn_takes_the_maximum_over_all_ngrams() -> None:
    model, (ids, offsets) = made("cnn"), texts()
    assert isinstance(model, Cnn)
    for i, x in enumerate(one_by_one("cnn")):
        expected = []
        for n, layer in zip(NGRAMS, model.filters, strict=True):
            padded = torch.cat([x, torch.zeros(n - 1, 12).double()])
            grams = [layer(padded[j : j + n].flatten()).relu() for j in range(len(x))]
            assert isinstance(layer, nn.Linear)
            none = torch.zeros(layer.out_features).double()
            result = torch.stack(grams).amax(0) if grams else none
            expected.append(result)
        assert torch.allclose(model(ids, offsets, Side.POST)[i], torch.cat(expected))


@pytest.mark.parametrize("kind", ["gru", "bi-gru"])
def test_the_gru_ends_in_its_last_state(kind: str) -> None:
    model, (ids, offsets) = made(kind), texts()
    assert isinstance(model, Gru)
    result = model(ids, offsets, Side.POST)
    for i, x in enumerate(one_by_one(kind)):
        if len(x):
            states, _ = model.gru(x.unsqueeze(0))  # [1, length, directions · hidden]
            half = CONFIG.dim // 2
            backward = states[0, 0, half:] if kind == "bi-gru" else states[0, -1, half:]
            assert torch.allclose(result[i], torch.cat([states[0, -1, :half], backward]))


@pytest.mark.parametrize(
    ("kind", "alpha"), [("ast-softmax", 1.0), ("ast-entmax15", 1.5), ("ast-sparsemax", 2.0)]
)
def test_an_ablation_keeps_its_alpha(kind: str, alpha: float) -> None:
    model, (ids, offsets) = made(kind), texts()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
    model(ids, offsets, Side.POST).square().sum().backward()
    optimizer.step()
    heads = [m.alpha for m in model.modules() if isinstance(m, Attention)]
    assert all(torch.equal(head, torch.full_like(head, alpha)) for head in heads)
