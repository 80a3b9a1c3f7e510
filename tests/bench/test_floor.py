"""The floor's arithmetic against sums made by hand and counts made by loops."""

import numpy as np
import pytest

from bench.floor import (
    Support,
    Work,
    mean_work,
    measure_support,
    row_bytes,
    touch,
    window_entries,
    work,
)
from encoder.model.config import AstConfig
from encoder.model.weights import random_weights
from tests.encoder.reference import reference_star

SMALL = AstConfig(dim=8, heads=2, head_dim=3, window=1)


def test_the_bytes_of_the_papers_form() -> None:
    assert row_bytes(AstConfig()) == 2 * (300 + 300 + 10 * 300 + 300)


def test_a_text_of_three_tokens_by_hand() -> None:
    found = work(SMALL, 3, Support(ring=2.5, star=1.5))
    logits = (2 + 3 + 2 + 3) * 6  # the neighbours and oneself, and the relay for each of three
    nodes = 3 * 2 * 2.5 * 8
    relay = 3 * (8 + 6) + min(3 * 2 * 8, 2 * 6 * 8)
    star = 4 * 2 * 8 + 1.5 * 2 * 8 + 4 * 6 * 8
    assert found == Work(3 * 2 * (6 + 6 + 16 + 8), logits + nodes + relay + star)


def test_the_residual_adds_one_multiply_add_per_number_read_and_the_gain() -> None:
    support = Support(1.0, 1.0)
    gated = AstConfig(dim=8, heads=2, head_dim=3, window=1, residual=True)
    assert work(gated, 5, support).multiply_adds == work(SMALL, 5, support).multiply_adds + 48


@pytest.mark.parametrize("window", [0, 1, 2, 5])
@pytest.mark.parametrize("tokens", [1, 2, 3, 9])
def test_window_entries_are_those_inside_the_text(tokens: int, window: int) -> None:
    pairs = [(i, j) for i in range(tokens) for j in range(tokens) if abs(i - j) <= window]
    assert window_entries(tokens, window) == len(pairs)


def test_the_mean_is_over_texts_and_not_over_tokens() -> None:
    support = Support(1.0, 1.0)
    offsets = np.array([0, 2, 2, 7, 9], np.int64)
    each = [work(SMALL, n, support) for n in (2, 5, 2)]
    found = mean_work(SMALL, offsets, support)
    assert found.bytes == pytest.approx(sum(w.bytes for w in each) / 4)
    assert found.multiply_adds == pytest.approx(sum(w.multiply_adds for w in each) / 4)


def test_the_support_is_what_the_oracle_attends_to() -> None:
    weights = random_weights(SMALL, 30, seed=4)
    ids = np.random.default_rng(2).integers(0, 30, 11).astype(np.int32)
    offsets = np.array([0, 4, 4, 11], np.int64)
    ring, star = [], []
    for low, high in ((0, 4), (4, 11)):
        trace = reference_star(weights, weights.embedding[ids[low:high]].astype(np.float64))
        star.append(np.mean([np.sum(p > 1e-9) for p in trace.star[0]]))
        heads = [head for token in trace.ring[0] for head in token]
        # E_i is h_i, which stands there already
        ring += [np.sum(p > 1e-9) - (p[-2] > 1e-9) for p in heads]
    found = measure_support(weights, ids, offsets)
    assert found.ring == pytest.approx(np.mean(ring), abs=0.02)
    assert found.star == pytest.approx(np.mean(star), abs=0.1)


def test_reading_reads_every_number() -> None:
    table = np.random.default_rng(0).integers(0, 2**63, (9, 5)).astype(np.uint64)
    ids = np.array([3, 3, 8, 0], np.int32)
    assert touch(table, ids) == np.bitwise_xor.reduce(table[ids].ravel())
