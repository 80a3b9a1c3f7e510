"""The fuzzer itself: inputs that can be made again, and failures of each kind that it sees."""

import time
from array import array
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.fuzz import run, target
from tests.hostile.fuzz.mutator import STEPS, Mutator
from tests.hostile.fuzz.run import INPUTS, MOST_FAILURES, REFUSED, SLOWEST, attempt, fuzz
from tests.hostile.fuzz.target import NAMES, Target

MUTATOR = Mutator([b'{"id": "1", "text": "storm"}', b"\x00\x01" * 50], [b"null", b"[" * 9], 1000)


def test_an_input_can_be_made_again_by_its_number() -> None:
    made = [MUTATOR.made("posts", number) for number in range(200)]
    assert made == [MUTATOR.made("posts", number) for number in range(200)]
    assert len(set(made)) > 150
    assert made != [MUTATOR.made("seeds", number) for number in range(200)]
    assert max(map(len, made)) <= 1000
    assert len(STEPS) > 5


def raises(data: bytes) -> bool:
    raise KeyError(data[:1])


def burns(data: bytes) -> bool:
    began = time.process_time()
    while time.process_time() - began < 0.05:
        pass
    return True


@pytest.mark.parametrize(
    ("feed", "said"),
    [
        (raises, "KeyError: b'a' (test_fuzz.py:"),
        (burns, "ms a KB, more than 20 (3 bytes)"),
        (bool, ""),
        (lambda data: not data, ""),
    ],
)  # fmt: skip
def test_what_an_input_comes_to(feed: Any, said: str) -> None:
    shared = array("d", [0] * 4)
    told = attempt(Target([b"abc"], [b"x"], feed, ms_per_kb=20), b"abc", shared)
    assert said in told
    assert bool(told) == bool(said)
    assert shared[REFUSED] == (feed not in (raises, burns, bool))
    assert shared[SLOWEST] >= 50 * (feed is burns)
    assert shared[INPUTS] == 0


def test_what_ends_the_process_is_a_failure_and_the_next_input_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fed(report: run.Report, seconds: float, most: int) -> bool:
        report.inputs += 1
        report.failures.append(f"posts {report.next - 1}: ended the process (-11)")
        return True

    monkeypatch.setattr(run, "fed", fed)
    report = fuzz("posts", 60, start=7)
    assert report.failures[:2] == [f"posts {n}: ended the process (-11)" for n in (7, 8)]
    assert len(report.failures) == MOST_FAILURES


def test_a_target_is_fed_in_a_process_of_its_own() -> None:
    report = fuzz("config", 60, start=3, most=25)
    assert (report.inputs, report.next, report.failures) == (25, 28, [])
    assert 0 < report.refused < 25
    assert report.slowest > 0


def test_every_target_has_a_file() -> None:
    files = {file.stem for file in (Path(target.__file__).parent / "targets").glob("*.py")}
    assert files - {"__init__"} == set(NAMES)
