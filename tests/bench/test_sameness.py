from pathlib import Path

import numpy as np
import pytest

from bench.sameness import compare, measure_sameness
from encoder.errors import InputError
from encoder.model_directory import write_model
from tests.encoder.small_model import background, small_model
from tests.encoder.small_transformer import model_with_star
from tests.train.data_folder import write


def test_pairs_that_decide_otherwise_and_those_that_may_be_expected() -> None:
    exact = np.array([[0.5, 0.41], [0.39, 0.1]], np.float32)
    own = exact + np.array([[0, 0.001], [0.02, 0]], np.float32)
    cells = compare(own, exact, np.array([0.4, 0.415], np.float32), 0.03)
    pairs, largest, mean, error, otherwise, expected = cells
    assert (pairs, error, otherwise) == (4, 0.03, 1)
    assert largest == pytest.approx(0.02, abs=1e-6)
    assert mean == pytest.approx(0.021 / 4, abs=1e-6)
    assert expected == pytest.approx(1e6 * mean * (2 / 4) / 0.04)  # two pairs are near


def test_the_scores_of_a_model_are_those_in_float64_within_its_error(tmp_path: Path) -> None:
    star, gated = tmp_path / "star", tmp_path / "gated"
    write_model(star, model_with_star())
    write_model(gated, small_model())
    posts, articles = tmp_path / "posts.jsonl", tmp_path / "articles.jsonl"
    write(posts, ({"text": text} for text in background(40)))
    write(articles, [{"title": "storm", "article": background(1)[0]}])
    _, table = measure_sameness(posts, articles, 30, str(star), lambda _: None, rate=0.05)
    (row,) = table.plain()["rows"]
    assert 0 < row["pairs"] <= 30
    assert 0 < row["largest difference"] <= row["may be, by enc.error"] < 1e-3
    with pytest.raises(InputError):
        measure_sameness(posts, articles, 30, str(gated), lambda _: None)
