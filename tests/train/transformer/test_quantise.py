"""From a star in PyTorch to its stored form, and to the vectors that ONNX Runtime reads of it."""

import numpy as np
import pytest
import torch

from encoder.embeddings import unit_rows
from encoder.model.star_settings import StarSettings
from encoder.model.star_transformer import StarTransformer
from encoder.model.star_weights import StarWeights
from encoder.model.weights import F32, I32
from encoder.readers.star_chunks import END, START, StarReader, star_vectors
from encoder.readers.star_inputs import LENGTHS
from encoder.readers.star_onnx import StarOnnx
from encoder.readers.star_torch import StarTorch
from train.transformer.mpnet import padded
from train.transformer.quantise import channel_sizes, quantise_columns, restored_star, stored_star

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
def stored(star: StarTransformer) -> StarWeights:
    batches = [padded(draw_texts([5] * 200)), padded(draw_texts([30] * 50))]
    return stored_star(star, channel_sizes(star, batches))


def read(reader: StarReader, texts: list[I32]) -> F32:
    return star_vectors(reader, texts, map)


def test_a_restored_star_is_the_stored_one_but_for_activations(stored: StarWeights) -> None:
    texts = draw_texts([1, 6, 40])
    exact = unit_rows(read(StarTorch(stored, "cpu", torch.float64), texts))
    restored = restored_star(stored).eval()
    with torch.inference_mode():
        vectors = unit_rows(np.concatenate([restored(*padded([one])).numpy() for one in texts]))
    assert np.linalg.norm(vectors - exact, axis=1).max() < 1e-3


def test_the_cpus_vectors_are_those_of_the_stored_star_in_float64(stored: StarWeights) -> None:
    texts = draw_texts([1, 3, 6, 20, 40, 100, 126, *(n - 2 for n in LENGTHS)])
    vectors = unit_rows(read(StarOnnx(stored), texts))
    exact = unit_rows(read(StarTorch(stored, "cpu", torch.float64), texts))
    assert np.linalg.norm(vectors - exact, axis=1).max() < 1e-3
    single = unit_rows(read(StarTorch(stored, "cpu", torch.float32), texts))
    assert np.linalg.norm(single - exact, axis=1).max() < 1e-3


def test_the_stored_star_is_near_to_the_star(star: StarTransformer, stored: StarWeights) -> None:
    texts = draw_texts([1, 3, 6, 20, 40, 100, 126])
    vectors = unit_rows(read(StarTorch(stored, "cpu", torch.float64), texts))
    with torch.inference_mode():
        exact = np.concatenate([star(*padded([text])).numpy() for text in texts])
    assert (vectors * unit_rows(exact)).sum(1).min() > 0.99


def test_a_text_has_the_same_bits_alone_and_in_any_batch(stored: StarWeights) -> None:
    reader = StarOnnx(stored)
    texts = draw_texts(np.random.default_rng(1).integers(1, 127, 150).tolist())
    together = read(reader, texts)
    assert np.array_equal(together[::-1], read(reader, texts[::-1]))
    for row in range(0, len(texts), 7):
        assert np.array_equal(together[row : row + 1], read(reader, [texts[row]]))


def test_a_texts_vector_is_the_mean_of_its_tokens(stored: StarWeights) -> None:
    (text,) = draw_texts([11])
    for reader in (
        StarOnnx(stored), StarTorch(stored, "cpu", torch.float64)
    ):  # fmt: skip
        (tokens,) = reader.tokens([text])
        mean = tokens[: len(text)].mean(0, dtype=np.float64)
        np.testing.assert_allclose(mean, reader.vectors([text])[0], atol=1e-5)


def test_columns_are_rounded_to_the_nearest_of_their_codes() -> None:
    matrix = np.random.default_rng(0).standard_normal((9, 5)).astype(np.float32)
    matrix[:, 3] = 0
    codes, scales = quantise_columns(matrix)
    assert np.abs(codes).max() == 64
    assert np.abs(codes * scales - matrix).max() <= np.abs(matrix).max() / 128 + 1e-6
