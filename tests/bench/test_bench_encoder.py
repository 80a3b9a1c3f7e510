"""The command as a whole on a few posts and a small model, and the tables it makes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import encoder as module
from bench import parts, startup
from bench.accuracy import Deviation
from bench.cli import bench
from bench.encoder import Options
from bench.latency import summarise, timed
from bench.measure import NotAvailable, Row
from bench.rows import SECTIONS, all_rows, published
from bench.startup import Start
from bench.workload import endless
from encoder.directory import write_model
from encoder.errors import InputError
from tests.encoder.small import background, small_model

OWN = (
    "published,torch,kernel,whole,again,a-published,a-kernel,"
    "front,front-again,entmax,bisect,touch,multiply"
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    write_model(folder / "small", small_model())
    posts = [{"text": text} for text in background(40)]
    long = [{"title": "storm", "article": " ".join(background(20))}] * 3
    for name, records in (("posts.jsonl", posts), ("articles.jsonl", long)):
        (folder / name).write_text("".join(json.dumps(r) + "\n" for r in records))
    return folder


def run(place: Path, *more: str) -> str:
    files = [f"--data={place}/posts.jsonl", f"--articles={place}/articles.jsonl"]
    settings = [f"--model={place}/small", "--rounds=1", "--seconds=0", "--threads=1"]
    done = CliRunner().invoke(bench, ["encoder", *files, *settings, *more], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_every_row_of_ours_runs_and_is_compared(place: Path) -> None:
    made = json.loads(run(place, f"--only={OWN},floor,errors", "--json"))
    rows = {r["row"]: r for s in SECTIONS if s.key in made for r in made[s.key]}
    assert set(rows) == {f"{stem}/1" for stem in OWN.split(",")}
    for row in rows.values():
        assert row["low"] <= row["median"] <= row["high"], row
        assert len(row["rates"]) == 1
    ratio = rows["whole/1"]["median"] / rows["published/1"]["median"]
    assert rows["whole/1"]["ratios"]["× as published"]["median"] == pytest.approx(ratio)
    assert rows["whole/1"]["ratios"]["× MiniLM"] is None
    share = made["floor"]["the kernel, posts/s"] / made["floor"]["the floor, posts/s"]
    assert made["floor"]["the kernel's share of the floor, %"] == pytest.approx(100 * share)
    errors = {e["path"]: e["embedding"] for e in made["errors"]}
    assert errors["as published"] < 1e-4
    assert errors["torch"] < 1e-4
    assert errors["kernel"] < 2e-3


def test_the_tables_name_the_machine_the_texts_and_the_rows(place: Path) -> None:
    shown = run(place, "--only=whole,multiply")
    assert f"30 posts, 3 articles: {place}/posts.jsonl" in shown
    assert "read before: 10 posts, 0 articles" in shown
    assert "whole encoder: text → embeddings" in shown
    assert "as published: padded" not in shown


def test_an_unknown_row_or_a_senseless_list_of_threads_is_refused(place: Path) -> None:
    with pytest.raises(InputError, match="--only: nonsense is no row; choose from a-kernel"):
        run(place, "--only=whole,nonsense")
    for odd in ("0", "1,x", ""):
        done = CliRunner().invoke(bench, ["encoder", f"--threads={odd}"])
        assert done.exit_code == 2
        assert "no list such as 1,2" in done.output


def test_a_peer_that_is_not_installed_leaves_its_reason(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(_: object, __: int) -> None:
        raise NotAvailable("not installed: pip install newsift[peers]")

    rows = [Row("minilm", "posts", "MiniLM", "posts/s", absent, 1)]  # type: ignore[arg-type]
    monkeypatch.setattr(module, "all_rows", lambda _: rows)
    assert "MiniLM, 1: not installed: pip install newsift[peers]" in run(place, "--only=minilm")


def test_a_part_that_cannot_be_made_leaves_its_reason(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(model: str, times: int) -> list[Start]:
        raise NotAvailable(f"{Path(model).name} does not start")

    monkeypatch.setattr(module, "starts", fail)
    assert run(place, "--only=start").rstrip().endswith("small does not start")


def test_every_row_belongs_to_a_section_and_has_a_name_of_its_own() -> None:
    rows = all_rows((1, 2))
    assert {row.section for row in rows} == {s.key for s in SECTIONS}
    assert len({row.key for row in rows}) == len(rows)
    stems = {row.stem for row in rows}
    assert {stem for s in SECTIONS for stem, _ in s.references} <= stems
    assert rows[0].prepare is published


def test_a_fresh_process_loads_the_model_without_torch(place: Path) -> None:
    found = startup.fresh_start(str(place / "small"))
    assert 0 < found.load <= found.first
    assert found.cpu > 0
    assert 0 < found.resident <= found.peak
    assert found.torch == (found.path == "torch")
    with pytest.raises(NotAvailable, match="no such directory"):
        startup.fresh_start(str(place / "nowhere"))


def test_batches_are_full_and_begin_again() -> None:
    found = endless("abcdefg", 3)
    assert [next(found) for _ in range(3)] == ["abc", "def", "abc"]
    assert next(endless("ab", 3)) == "ab"


def test_latencies_are_of_single_batches() -> None:
    assert len(timed(lambda: 1, 0.0)) == 5
    times = {("whole", 4): [3e-3, 1e-3, 2e-3]}
    part = parts.batches(summarise(times), 1)
    assert part.rows == [("whole", "4", "2.00", "3.00", "2,000", "3")]


def test_medians_of_starts_and_largest_errors_are_shown() -> None:
    start = [Start(x, 2 * x, 3 * x, 100 * x, 200 * x, False, "kernel") for x in (1.0, 3.0, 2.0)]
    assert [row[1] for row in parts.start(start).rows[:5]] == ["2.00", "4.00", "6.00", "200", "400"]
    shown = parts.errors([Deviation("torch", 1e-6, 2e-7), ("kernel", "unknown CPU")], 9).render()
    assert "1.0e-06" in shown
    assert "kernel: unknown CPU" in shown


def test_a_quick_run_is_the_same_with_less_of_everything() -> None:
    full, quick = Options(), module.QUICK
    assert quick.seconds < full.seconds / 5
    assert quick.only == full.only == frozenset()
