"""The fuzzer itself: inputs that can be made again, and failures of each kind that it reports."""

import time
from typing import Any

import pytest

from tests.hostile.fuzz.mutator import Mutator
from tests.hostile.fuzz.run import attempt, fuzz
from tests.hostile.fuzz.target import Target

MUTATOR = Mutator([b'{"id": "1", "text": "storm"}', b"\x00\x01" * 50], [b"null", b"[" * 9], 1000)


def test_an_input_can_be_made_again_by_its_number() -> None:
    inputs = [MUTATOR.made("posts", number) for number in range(200)]
    assert inputs == [MUTATOR.made("posts", number) for number in range(200)]
    assert len(set(inputs)) > 150
    assert max(map(len, inputs)) <= 1000


def raises(data: bytes) -> bool:
    raise KeyError(data[:1])


def burns(data: bytes) -> bool:
    began = time.process_time()
    while time.process_time() - began < 0.05:
        pass
    return True


@pytest.mark.parametrize(
    ("feed", "failure"),
    [
        (raises, "KeyError: b'a' (test_fuzz.py:"),
        (burns, "ms a KB, more than 20 (3 bytes)"),
        (bool, ""),
    ],
)
def test_an_error_and_a_high_cost_are_failures(feed: Any, failure: str) -> None:
    result = attempt(Target([b"abc"], [b"x"], feed, ms_per_kb=20), b"abc")
    assert failure in result.failure
    assert bool(result.failure) == bool(failure)


def test_a_target_is_fed_in_a_process_of_its_own() -> None:
    report = fuzz("batches", 60, start=3, most=25)
    assert (report.inputs, report.failures) == (25, [])
    assert 0 < report.refused < 25
