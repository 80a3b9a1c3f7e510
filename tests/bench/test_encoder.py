"""The command as a whole on a few posts and a small model, and the tables it makes."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from bench.cli import bench
from bench.encoder import (
    ROWS,
    BenchRow,
    Published,
    Start,
    Workload,
    fresh_start,
    fresh_starts,
    padded_batch,
    single,
    starts,
)
from bench.measure import NotAvailable, Run
from encoder.errors import InputError
from encoder.model.config import AstConfig, Side
from encoder.model.weights import I32, I64, random_weights
from encoder.model_directory import write_model
from tests.encoder.reference import reference
from tests.encoder.small import background, small_model

OWN = "published,torch,kernel,whole,again"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    write_model(folder / "small", small_model())
    posts = [{"text": text} for text in background(40)]
    (folder / "posts.jsonl").write_text("".join(json.dumps(r) + "\n" for r in posts))
    return folder


def ran(place: Path, *more: str) -> str:
    settings = [f"--data={place}/posts.jsonl", f"--model={place}/small", "--rounds=1"]
    given = ["encoder", *settings, "--seconds=0", "--threads=1", *more]
    done = CliRunner().invoke(bench, given, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_every_row_of_ours_runs_and_is_compared(place: Path) -> None:
    made = json.loads(ran(place, f"--only={OWN},single,errors", "--json"))
    found = {row["row"]: row for row in made["posts"]["rows"]}
    assert list(found) == [ROWS[name].name for name in OWN.split(",")]
    for row in found.values():
        assert row["threads"] == 1
        assert row["lowest"] <= row["posts/s"] <= row["highest"], row
    published, *_, whole, _ = found.values()
    assert whole["× as published"] == pytest.approx(whole["posts/s"] / published["posts/s"])
    assert whole["× MiniLM"] is None
    (alone,) = made["single"]["rows"]
    assert 0 < alone["p50 ms"] <= alone["p99 ms"]
    errors = {row["path"]: row["embedding, relative"] for row in made["errors"]["rows"]}
    assert errors["torch"] < 1e-4
    assert errors["kernel"] < 1e-5


def test_the_tables_name_the_machine_the_texts_and_the_rows(place: Path) -> None:
    shown = ran(place, "--only=whole")
    assert "texts: 30 posts, " in shown
    assert f"tokens each: {place}/posts.jsonl" in shown
    assert "read before: 10 posts" in shown
    assert "whole encoder: text → embeddings" in shown
    assert "as published: padded" not in shown


def test_an_unknown_row_or_a_senseless_list_of_threads_is_refused(place: Path) -> None:
    with pytest.raises(InputError, match="--only: nonsense is no row; choose from again, errors"):
        ran(place, "--only=whole,nonsense")
    for odd in ("0", "1,x", ""):
        done = CliRunner().invoke(bench, ["encoder", f"--threads={odd}"])
        assert done.exit_code == 2
        assert "no list such as 1,2" in done.output


def test_a_peer_that_is_not_installed_leaves_its_reason(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(_: object, __: int) -> Run:
        raise NotAvailable("MiniLM is not installed; call `make peers`")

    monkeypatch.setitem(ROWS, "minilm", BenchRow("MiniLM", absent))
    assert "MiniLM, 1: MiniLM is not installed; call `make peers`" in ran(place, "--only=minilm")


def test_a_part_that_cannot_be_made_leaves_its_reason(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(model: str) -> Start:
        raise NotAvailable(f"{Path(model).name} does not start")

    monkeypatch.setattr("bench.encoder.fresh_start", fail)
    assert ran(place, "--only=start").rstrip().endswith("small does not start")


@pytest.mark.slow
def test_a_fresh_process_loads_the_model_without_torch(place: Path) -> None:
    load, first, cpu, resident, peak, torch, path = fresh_start(str(place / "small"))
    assert 0 < load <= first
    assert cpu > 0
    assert 0 < resident <= peak
    assert torch == (path == "torch")
    with pytest.raises(NotAvailable, match="no such directory"):
        fresh_start(str(place / "nowhere"))


def test_batches_are_full_and_begin_again(place: Path) -> None:
    assert [starts(7, 3), starts(2, 3)] == [[0, 3], [0]]
    work = Workload(place / "posts.jsonl", str(place / "small"), 7, 0)
    found, ids = work.batches(work.posts, 3), work.id_batches(3)
    assert [next(found) for _ in range(3)] == [work.posts[:3], work.posts[3:6], work.posts[:3]]
    first, second, again = (next(ids) for _ in range(3))
    assert [list(one) for one in first] == [list(one) for one in again]
    assert first[1][0] == second[1][0] == 0
    assert [*first[0], *second[0]] == list(work.tokens.ids[: work.tokens.offsets[6]])


@pytest.mark.parametrize(("posts", "earlier"), [(20, 10), (200, 100), (30, 0), (5, 5)])
def test_earlier_posts_are_others_and_too_few_are_shared_out(
    tmp_path: Path, posts: int, earlier: int
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps({"text": f"post {i}"}) + "\n" for i in range(30)))
    work = Workload(file, "small", posts, earlier)
    assert len(work.posts) == min(posts, 30 if not earlier else 20 if posts > 5 else 5)
    if earlier:
        assert len(work.earlier) == min(earlier, 10)
        assert not {*work.posts} & {*work.earlier}


def test_a_post_alone_is_timed_at_least_five_times(place: Path) -> None:
    work = Workload(place / "posts.jsonl", str(place / "small"), 7, 0)
    assert single(work, 0).rows[0][-1] == 5


def test_medians_of_starts_are_shown_without_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter((x, 2 * x, 3 * x, 100 * x, 200 * x, False, "kernel") for x in (9.0, 1.0, 3.0, 2.0))
    monkeypatch.setattr("bench.encoder.fresh_start", lambda _: next(found))
    assert [row[1] for row in fresh_starts("any").rows] == [2, 4, 6, 200, 400]


LENGTHS = (1, 2, 7, 0, 4, 13)


@pytest.fixture
def texts() -> tuple[I32, I64]:
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.int64)
    return np.random.default_rng(1).integers(0, 50, offsets[-1]).astype(np.int32), offsets


@pytest.mark.parametrize(("window", "layers"), [(2, 1), (1, 1), (0, 2), (3, 2)])
def test_computes_what_the_paper_says_whatever_the_padding(
    window: int, layers: int, texts: tuple[I32, I64]
) -> None:
    config = AstConfig(dim=12, heads=3, head_dim=5, window=window, layers=layers)
    weights = random_weights(config, 50, seed=window)
    ids, offsets = texts
    found = Published(weights, torch.float64).forward(ids, offsets)
    for i, y in enumerate(found):
        exact = reference(weights, ids[offsets[i] : offsets[i + 1]].tolist(), Side.POST)
        np.testing.assert_allclose(y, exact, atol=1e-7)  # α comes by its sigmoid


def test_single_precision_stays_close_to_double(texts: tuple[I32, I64]) -> None:
    weights = random_weights(AstConfig(dim=12, heads=3, head_dim=5), 50)
    single = Published(weights).forward(*texts)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, Published(weights, torch.float64).forward(*texts), atol=1e-4)


def test_a_residual_is_refused() -> None:
    with pytest.raises(InputError, match="the published form has none"):
        Published(random_weights(AstConfig(dim=4, heads=1, head_dim=4, residual=True), 5))


def test_a_batch_is_as_long_as_its_longest_text() -> None:
    padded, real = padded_batch(np.array([9, 5, 6, 7], np.int32), np.array([1, 2, 4], np.int64))
    assert padded.tolist() == [[5, 0], [6, 7]]
    assert real.tolist() == [[True, False], [True, True]]
