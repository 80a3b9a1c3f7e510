"""What a line of progress says: how much, how fast, and how long it still takes."""

import sys
import time

import pytest

from newsift.operations.messages import ProgressLine, format_span


@pytest.mark.parametrize(
    ("seconds", "message"),
    [(0.2, "0 s"), (89, "89 s"), (90, "2 min"), (5399, "90 min"), (5400, "2 h"), (9e6, "2,500 h")],
)
def test_a_span_is_told_as_people_do(seconds: float, message: str) -> None:
    assert format_span(seconds) == message


def test_the_time_left_follows_from_the_share(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A quarter in 20 seconds: the rest takes a minute."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    existing, unknown = ProgressLine(lambda done: done / 400), ProgressLine()
    now[0] += 20
    existing.add(100, "posts", ", 3 matched")
    unknown.add(100, "posts")
    now[0] += 60
    existing.add(300, "posts")
    assert capsys.readouterr().err.split("\r\x1b[K") == [
        "", "100 posts, 3 matched, 5/s, 60 s left", "100 posts, 5/s", "400 posts, 5/s",
    ]  # fmt: skip
