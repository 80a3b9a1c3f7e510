import time
from typing import Any

import pytest

from tests.hostile.fuzz.run import attempt
from tests.hostile.fuzz.target import Target


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
