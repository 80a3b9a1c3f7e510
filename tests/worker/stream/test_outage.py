"""An outage is told once, then once a minute, and its end once."""

import logging

import pytest

from worker.stream.outage import Outage


def test_an_outage_is_told_once_a_minute_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    outage = Outage(logging.getLogger("newsift.test"), "reading", lambda: now[0])
    outage.ended()
    for second in range(130):
        now[0] = float(second)
        outage.failed(OSError("gone"))
    outage.ended()
    outage.ended()
    outage.failed(OSError("again"))
    assert [record.getMessage() for record in caplog.records] == [
        "reading failed and is tried again: gone",
        "reading has failed for 60 s: gone",
        "reading has failed for 120 s: gone",
        "reading works again, after 129 s",
        "reading failed and is tried again: again",
    ]
