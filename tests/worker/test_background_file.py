import hashlib
import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from encoder.embeddings import unit_rows
from newsift.statistics.background import THRESHOLD_FACTOR, match_seeds
from tests.encoder.small_model import background
from tests.worker.small_encoder import ARTICLES, book_of, small_encoder
from worker.assembly import build_pipeline
from worker.background_file import read_background
from worker.config import Config, MatchingConfig
from worker.errors import ConfigError
from worker.seeds.automatic import tail_error, tail_size


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "own.safetensors"
    small_encoder().posts(background(500)).save(path)
    return path


def configured(file: Path | None, **more: object) -> Config:
    return Config(matching=MatchingConfig(background=file, background_rate=0.01, **more))  # type: ignore[arg-type]


def test_thresholds_come_from_the_file_and_the_seed_set_names_it(file: Path) -> None:
    enc, book = small_encoder(), book_of(**{name: {"text": t} for name, t in ARTICLES.items()})
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    made = build_pipeline(enc, configured(file))[1].make(book.snapshot())
    usual = build_pipeline(enc, configured(None))[1].make(book.snapshot())

    scores = np.sort(made.embeddings.similarity(enc.posts(background(500))), axis=1)  # [k, 500]
    np.testing.assert_allclose(made.thresholds, scores[:, -5], atol=1e-6)
    assert made.thresholds.tolist() != usual.thresholds.tolist()
    rows = [["background", digest], *([s.id, s.version, "auto 0.010000"] for s in made.seeds)]
    text = str(rows).replace("'", '"').replace(", ", ",")
    assert made.digest == hashlib.sha256(text.encode()).hexdigest()[:12]
    assert made.digest != usual.digest
    assert read_background(file, enc, 0.01).digest == digest


def test_an_unusable_file_is_refused(file: Path, tmp_path: Path) -> None:
    enc = small_encoder()
    other, broken, few, narrow = (
        tmp_path / f"{n}.safetensors" for n in ("other", "broken", "few", "narrow")
    )
    posts = enc.posts(background(500))
    replace(posts, dense=unit_rows(posts.dense[:, :3])).save(narrow)
    small_encoder(mix=0.3).posts(background(500)).save(other)
    broken.write_bytes(b"\x08\0\0\0\0\0\0\0{}      ")
    enc.posts(background(200)).save(few)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, message in {
        tmp_path / "gone": "cannot be read (No such file or directory); build one with",
        tmp_path: "is not a regular file; build one with",
        pipe: "is not a regular file; build one with",
        broken: "cannot be read as embeddings",
        other: "made with model",
        narrow: f"dim 3), the configuration's is {enc.digest[:12]} (λ {enc.mix:g}, dim {enc.dim})",
        few: "200 posts are too few for matching.background_rate 0.01, with 2 of them",
    }.items():
        with pytest.raises(ConfigError, match=f"^matching.background: {path}") as error:
            build_pipeline(enc, configured(path))
        assert message in str(error.value)
        assert "\n" not in str(error.value)
    with pytest.raises(ConfigError, match="; 300 are needed"):
        build_pipeline(enc, configured(few))


def test_the_width_of_a_threshold() -> None:
    assert [tail_size(posts, 0.001) for posts in (400, 1000, 20_000)] == [0, 1, 20]
    assert tail_error(10) == pytest.approx(0.316, abs=1e-3)
    rng = np.random.default_rng(1)
    for tail in (10, 40):  # how the share above the cut of 1,000 samples varies
        shares = [np.sort(rng.random(20_000))[-tail] for _ in range(1000)]
        deviation = np.std([(1 - cut) * 20_000 / tail for cut in shares])
        assert deviation == pytest.approx(tail_error(tail), rel=0.15)
    assert math.isinf(tail_error(0))


def test_posts_near_a_seed_are_those_well_above_its_threshold() -> None:
    enc = small_encoder()
    posts, seeds = enc.posts(background(300)), enc.articles(list(ARTICLES.values()))
    cuts = enc.thresholds(seeds, 0.05)
    slow = [any(row >= THRESHOLD_FACTOR * cuts) for row in posts.similarity(seeds)]
    result = match_seeds(posts, seeds, enc, 0.05)
    assert result.tolist() == slow
    assert 0 < sum(slow) < 300
    assert not match_seeds(posts, seeds[:0], enc, 0.05).any()
    assert len(match_seeds(posts, seeds, enc, 1e-9)) == 300  # finer than the model's can tell
