"""From a star in PyTorch to its stored form, and to the vectors that ONNX Runtime reads of it."""

import numpy as np
import pytest
import torch

from encoder.model.star_settings import StarSettings
from encoder.model.star_transformer import StarTransformer
from encoder.model.weights import I32
from encoder.readers.star_chunks import END, START
from encoder.readers.star_onnx import LENGTHS, StarOnnx
from train.transformer.mpnet import padded
from train.transformer.quantise import channel_sizes, quantise_columns, stored_star

SETTINGS = StarSettings(
    vocabulary=60, layers=2, width=48, heads=4, inner=96, window=3, bridge=0, dim=16
)


def draw_texts(lengths: list[int]) -> list[I32]:
    rng = np.random.default_rng(0)
    return [np.array([START, *rng.integers(3, 60, n), END], np.int32) for n in lengths]


@pytest.fixture(scope="module")
def star() -> StarTransformer:
    torch.manual_seed(0)
    star = StarTransformer(SETTINGS).eval()
    with torch.no_grad():
        star.distances.weight.normal_(0, 2)
        for parameter in star.layers.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
        for name, parameter in star.named_parameters():
            if name.endswith("widen.bias"):
                parameter[:3] += 40  # channels of another size, as pretrained layers have
    return star


@pytest.fixture(scope="module")
def reader(star: StarTransformer) -> StarOnnx:
    sizes = channel_sizes(star, [padded(draw_texts([5] * 200)), padded(draw_texts([30] * 50))])
    return StarOnnx(SETTINGS, stored_star(star, sizes))


def test_the_cpus_vectors_are_those_of_float64(star: StarTransformer, reader: StarOnnx) -> None:
    texts = draw_texts([1, 3, 6, 20, 40, 100, 126])
    vectors = reader.forward(texts)
    exact = StarTransformer(SETTINGS).double().eval()
    exact.load_state_dict(star.state_dict())
    with torch.inference_mode():
        expected = np.concatenate([exact(*padded([text])).numpy() for text in texts])
    for mine, theirs in zip(vectors, expected, strict=True):
        cosine = mine @ theirs / np.linalg.norm(mine) / np.linalg.norm(theirs)
        assert cosine > 0.99


def test_a_text_has_the_same_bits_alone_and_in_any_batch(reader: StarOnnx) -> None:
    rng = np.random.default_rng(1)
    texts = draw_texts(rng.integers(1, 127, 150).tolist())
    together = reader.forward(texts)
    assert np.array_equal(together[::-1], reader.forward(texts[::-1]))
    for row in range(0, len(texts), 7):
        assert np.array_equal(together[row : row + 1], reader.forward([texts[row]]))


def test_every_length_is_read_with_its_own_padding(star: StarTransformer, reader: StarOnnx) -> None:
    for length in LENGTHS:
        (text,) = draw_texts([length - 2])
        with torch.inference_mode():
            (expected,) = star(*padded([text])).numpy()
        (mine,) = reader.forward([text])
        assert mine @ expected / np.linalg.norm(mine) / np.linalg.norm(expected) > 0.99


def test_columns_are_rounded_to_the_nearest_of_their_codes() -> None:
    matrix = np.random.default_rng(0).standard_normal((9, 5)).astype(np.float32)
    matrix[:, 3] = 0
    codes, scales = quantise_columns(matrix)
    assert np.abs(codes).max() == 64
    assert np.abs(codes * scales - matrix).max() <= np.abs(matrix).max() / 128 + 1e-6
