"""An encoder with a star: two readers of posts in one space."""

import json
import logging
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import encoder
import worker
from encoder import Encoder
from encoder.embeddings import Embeddings, unit_rows
from encoder.errors import DeviceError, InputError, ModelError, NewsiftError
from encoder.model.star_settings import StarSettings
from encoder.model.star_weights import StarWeights
from encoder.model.weights import F32
from encoder.model_directory import STAR, Model, read_model, write_model
from encoder.readers import choose
from encoder.readers.star_chunks import chunks_of
from encoder.readers.star_texts import StarTexts
from encoder.readers.star_torch import StarTorch
from encoder.support.named import model_directory
from encoder.text.clean import Article
from encoder.text.tokenizer import Tokens
from tests.encoder.small_model import TOPICS, WORDS, same_rows, small_model
from tests.encoder.small_transformer import SETTINGS, model_with_star

LONG = " ".join(np.random.default_rng(0).choice(WORDS, 300))
POSTS = [*TOPICS, "", LONG, "cat"]
ARTICLES: list[Article] = [("storm", "the river storm flood in the city"), LONG, ("", "")]


@pytest.fixture(scope="module")
def model() -> Model:
    return model_with_star()


@pytest.fixture(scope="module")
def folder(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "m"
    write_model(path, model)
    return path


@pytest.fixture(scope="module")
def enc(folder: Path) -> Encoder:
    return encoder.load(folder, device="cpu", threads=2)


def exact_vectors(model: Model, tokens: Tokens, lead: bool) -> F32:
    """Text by text and chunk by chunk, in float64."""
    assert model.star is not None
    reader = StarTorch(model.star.weights, "cpu", torch.float64)
    out = np.zeros((len(tokens.offsets) - 1, 12))
    for row, (start, stop) in enumerate(zip(tokens.offsets[:-1], tokens.offsets[1:], strict=True)):
        chunks, _ = chunks_of(tokens.ids[start:stop], np.array([0, stop - start]))
        for number, chunk in enumerate(chunks):
            vector = reader.vectors([chunk])[0].astype(np.float64)
            weight = 2 if lead and number == 0 else 1
            out[row] += weight * vector / np.linalg.norm(vector)
    return unit_rows(out.astype(np.float32))


def test_texts_are_read_by_the_star(enc: Encoder, model: Model) -> None:
    assert enc.path == "onnx"
    assert 0 < enc.error < 1e-3
    tokenizer = enc._star.tokenizer  # type: ignore[union-attr]
    posts, articles = enc.posts(POSTS), enc.articles(ARTICLES)
    assert not posts.skimmed
    exact = exact_vectors(model, tokenizer.posts(POSTS), lead=False)
    np.testing.assert_allclose(posts.dense, exact, atol=1e-3)
    exact = exact_vectors(model, tokenizer.articles(ARTICLES), lead=True)
    np.testing.assert_allclose(articles.dense, exact, atol=1e-3)
    assert not posts.dense[4].any()


def test_skimming_is_the_gated_means(enc: Encoder) -> None:
    skimmed = enc.skim(POSTS)
    assert skimmed.skimmed
    model = small_model()
    alone = Encoder(model, choose.open_readers(model, "cpu", 1))
    assert np.array_equal(skimmed.dense, alone.posts(POSTS).dense)
    assert np.array_equal(skimmed.lexical.weights, enc.posts(POSTS).lexical.weights)


def test_a_post_has_the_same_bits_alone_and_in_any_batch(enc: Encoder) -> None:
    together = enc.posts(POSTS)
    for row, post in enumerate(POSTS):
        assert same_rows(together[row : row + 1], enc.posts([post], threads=1))


def test_each_reader_has_thresholds_of_its_own(enc: Encoder) -> None:
    A = enc.articles(ARTICLES[:2])
    read, skim = enc.thresholds(A, 0.01), enc.thresholds(A, 0.01, skim=True)
    assert (read != skim).all()
    both = enc.match_thresholds(A, 0.01, read_factor=4)
    assert (both[0] <= read).all()  # fewer are read, so no more pass


@pytest.mark.parametrize("skim", [False, True])
def test_contributions_sum_to_the_score(enc: Encoder, skim: bool) -> None:
    A = enc.articles(ARTICLES)
    for post in POSTS:
        parts = enc.explain(post, A, 1, skim=skim)
        score = (enc.skim if skim else enc.posts)([post]).similarity(A)[0, 1]
        assert sum(part for _, part in parts) == pytest.approx(score, abs=1e-3)
        shares = [share for _, share in enc.explain(post, skim=skim)]
        assert all(share >= 0 for share in shares)
        assert sum(shares) == pytest.approx(1 if post else 0, abs=1e-4)


def test_the_parts_of_words_are_those_of_their_last_states(enc: Encoder, model: Model) -> None:
    assert model.star is not None
    A = enc.articles(ARTICLES[:1])
    post = TOPICS[0]
    tokens = enc._star.tokenizer.posts([post])  # type: ignore[union-attr]
    (chunk,), _ = chunks_of(tokens.ids, tokens.offsets)
    (states,) = StarTorch(model.star.weights, "cpu", torch.float64).tokens([chunk])
    total = np.linalg.norm(states[: len(chunk)].sum(0))
    dense = (1 - enc.mix) * (states[1 : len(chunk) - 1] @ A.dense[0]) / total
    parts = dict(enc.contributions([post], A, [(0, 0)])[0])
    words = post.split()
    shared = enc.posts([post]).lexical.dot(A.lexical)[0, 0] * enc.mix
    assert sum(parts[word] for word in words) - shared == pytest.approx(dense.sum(), abs=5e-3)


def test_a_model_with_a_star_survives_its_directory(folder: Path, model: Model) -> None:
    again = read_model(folder)
    assert again.star is not None
    assert model.star is not None
    assert again.star.weights.settings == model.star.weights.settings
    for name, value in model.star.weights.tensors.items():
        assert np.array_equal(again.star.weights[name], value), name
    for mine, theirs in (
        (again.background.read, model.background.read),
        (again.background.skim, model.background.skim),
    ):
        assert isinstance(mine, Embeddings)
        np.testing.assert_allclose(mine.dense, theirs.dense, atol=2e-2)


@pytest.mark.parametrize("installed", [True, False])
def test_a_gpu_that_cannot_be_used_leaves_reading_to_the_cpu(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, installed: bool
) -> None:
    monkeypatch.setattr(choose, "cuda_present", lambda: True)
    if installed:
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    else:
        monkeypatch.setitem(sys.modules, "torch", None)
    with caplog.at_level(logging.WARNING, "newsift.encoder"):
        with encoder.load(folder) as enc:
            assert enc.path == "onnx"
        assert len(caplog.records) == 1
    with pytest.raises(DeviceError):
        encoder.load(folder, device="cuda")


@pytest.mark.parametrize("device", ["tpu", "cuda"])
def test_a_device_that_is_not_there_is_refused(folder: Path, device: str) -> None:
    if device == "cuda" and choose.cuda_present():
        pytest.skip("there is a GPU")
    with pytest.raises(NewsiftError, match="device"):
        encoder.load(folder, device=device)


@pytest.mark.parametrize(
    "odd",
    [
        {"layers": 10**9}, {"width": 25}, {"heads": 0}, {"window": 0}, {"bridge": 2},
        {"bridge": -1}, {"dim": 2**30}, {"layers": "two"}, {"wings": 1},
    ],
)  # fmt: skip
def test_settings_that_make_no_star_are_refused(odd: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="star"):
        StarSettings.from_dict(SETTINGS.as_dict() | odd)


def test_a_stored_star_of_entmax_is_refused(model: Model) -> None:
    assert model.star is not None
    with pytest.raises(InputError, match="entmax"):
        StarWeights(replace(SETTINGS, adaptive=True), model.star.weights.tensors)


def test_a_star_that_is_damaged_is_refused(folder: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "m"
    damaged.mkdir()
    for file in folder.iterdir():
        content = file.read_bytes()
        half = content[: len(content) // 2]
        (damaged / file.name).write_bytes(half if file.name == STAR else content)
    with pytest.raises(ModelError, match=STAR):
        encoder.load(damaged)


def test_python_ends_while_other_threads_read(folder: Path) -> None:
    code = (
        "import encoder, sys, threading, time; e = encoder.load(sys.argv[1], threads=1);"
        "read = lambda: [e.posts(['storm flood river ' * 40] * 64) for _ in range(10_000)];"
        "[threading.Thread(target=read, daemon=True).start() for _ in range(4)]; time.sleep(0.5)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_error_that_the_default_model_states_holds_for_posts_it_does_not_know() -> None:
    samples = Path(worker.__file__).parent / "samples" / "posts.jsonl"
    rows = map(json.loads, samples.read_text("utf-8").splitlines())
    posts = [row["text"] for row in rows if isinstance(row.get("text"), str)][:40]
    enc, model = encoder.load("default", device="cpu"), read_model(model_directory("default"))
    assert model.star is not None
    exact = StarTexts(model, StarTorch(model.star.weights, "cpu", torch.float64))
    gaps = enc.posts(posts).dense - exact.posts(posts, map)[0]  # [posts, d]
    assert (1 - enc.mix) * np.linalg.norm(gaps, axis=1).max() <= enc.error <= 1e-3
