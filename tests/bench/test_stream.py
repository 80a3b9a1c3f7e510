import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.encoder import rate_on
from bench.measure import Run, interleave, number, percentile, rate_of
from bench.programs import Speed
from bench.stream import encoder_speed, speed_table
from bench.texts import read_posts
from encoder.errors import InputError
from tests.train.data_folder import write


def test_every_row_runs_once_a_round() -> None:
    ran: list[str] = []

    def row(name: str, rate: float) -> Speed:
        ran.append(name)
        return Speed(rate * ran.count(name), 5.0)

    rows = {"a": lambda: row("a", 100), "b": lambda: row("b", 50), "c": lambda: row("c", 10)}
    result = interleave(rows, 3, lambda line: None)
    assert ran == ["a", "b", "c"] * 3
    assert speed_table(result).rows[1] == ("b", 100, 50, 150, 0.5, 5, 5)


def test_the_encoder_alone_is_timed_on_few_texts() -> None:
    assert 0 < encoder_speed(["storm over the harbour"]).rate < 1e9


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.done: list[str] = []

    def __call__(self) -> float:
        return self.now

    def work(self, name: str, items: int, seconds: float) -> Run:
        def run() -> int:
            self.now += seconds
            self.done.append(name)
            return items

        return run


def test_a_rate_counts_whole_batches_until_the_time_is_up() -> None:
    clock = Clock()
    assert rate_of(clock.work("a", 10, 0.4), 1.0, clock) == pytest.approx(30 / 1.2)
    assert len(clock.done) == 3


def test_a_row_runs_on_its_own_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")
    before = torch.get_num_threads()
    seen: list[int] = []

    def look() -> int:
        seen.append(torch.get_num_threads())
        return 1

    try:
        for threads in (1, 2):
            rate_on(threads, look, 0.0)
    finally:
        torch.set_num_threads(before)
    assert seen == [1, 2]


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_the_least_value_that_covers_its_share(
    values: list[float], share: float
) -> None:
    result = percentile(values, share)
    assert result in values
    assert sum(v <= result for v in values) >= share * len(values) - 1e-9
    assert sum(v < result for v in values) < share * len(values)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(61_234.4, "61,234"), (3.456, "3.46"), (0.0421, "0.0421"), (2e-7, "2.0e-07"), (math.nan, "–")],
)
def test_numbers_have_three_digits(value: float, shown: str) -> None:
    assert number(value) == shown


def test_posts_of_all_files_in_a_fixed_shuffled_order(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [{"text": " one "}, {"text": ""}, {"other": 1}])
    write(tmp_path / "b.jsonl.gz", [{"post": "two"}, {"text": "three", "title": "3"}])
    (tmp_path / "notes.txt").write_text("no record")
    result, source = read_posts(tmp_path, 10)
    assert (sorted(result), source) == (["one", "three", "two"], str(tmp_path))
    assert read_posts(tmp_path, 10) == (result, source)
    assert read_posts(tmp_path, 2)[0] == result[:2]


def test_a_line_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "fine"}\n{"text":\n')
    with pytest.raises(InputError, match=r"a\.jsonl:2: is not a JSON object"):
        read_posts(tmp_path, 9)
