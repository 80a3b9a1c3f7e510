"""Times as newsift writes them: any number of milliseconds that a record can have is one."""

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder.errors import InputError
from worker.actions.times import since, until
from worker.posts.times import FIRST_MS, LAST_MS, rfc3339


@pytest.mark.parametrize(
    ("milliseconds", "wanted"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1_767_225_600_999, "2026-01-01T00:00:00.999Z"),
        (FIRST_MS, "0001-01-01T00:00:00.000Z"),
        (LAST_MS, "9999-12-31T23:59:59.999Z"),
        (FIRST_MS - 1, "0001-01-01T00:00:00.000Z"),
        (2**63 - 1, "9999-12-31T23:59:59.999Z"),
        (-(2**63), "0001-01-01T00:00:00.000Z"),
    ],
)
def test_rfc3339(milliseconds: int, wanted: str) -> None:
    assert rfc3339(milliseconds) == wanted


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_timestamp_of_a_record_can_be_written(milliseconds: int) -> None:
    told = rfc3339(milliseconds)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", told)
    if FIRST_MS <= milliseconds <= LAST_MS:
        seconds = (datetime.fromisoformat(told) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
        assert round(seconds * 1000) == milliseconds


@pytest.mark.parametrize("text", ["999999999w", "9999-12-31T23:59:59-01:00", "10000-01-01T00:00Z"])
def test_a_time_that_cannot_be_written_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no time"):
        until(text)


def test_a_span_longer_than_time_begins_with_it() -> None:
    assert since("999999999w") == 0
