"""Counts by judge, agreement of two, and posts on which judges differ."""

from types import SimpleNamespace
from typing import Any

import pytest

from newsift.desk.views.judge import MOST_DISPUTED, MOST_PEOPLE, judges
from newsift.statistics.labels import Label, Verdict
from tests.newsift.desk.client import call
from worker.posts.outcome import Post

EVIL = "\u202e<script>alert(1)</script>"


def label(post: int, by: str, verdict: Verdict, **changes: Any) -> Label:
    values = {"at": f"2026-03-01T10:00:{post % 60:02}Z", "drawn": "given"} | changes
    return Label(verdict, "storm", Post(str(post), "x", f"rain {post}"), by, **values)


def answer(labels: list[Label], away: str = "") -> Any:
    mirrors = SimpleNamespace(
        labels=SimpleNamespace(of=lambda event: tuple(labels) if event == "storm" else ()),
        labels_follower=SimpleNamespace(away=away),
    )
    desk: Any = SimpleNamespace(mirrors=mirrors)
    return call(desk, judges, event="storm")


def test_two_judges_are_counted_and_compared() -> None:
    ann = [label(n, "ann", "on" if n < 6 else "off", drawn="learn") for n in range(10)]
    ben = [label(n, "ben", "on" if n < 4 else "off") for n in range(8)]
    result = answer([*ann, *ben])
    none = {"unsure": 0, "certify": 0}
    assert result["counts"] == [
        {"by": "ann", "on": 6, "off": 4, "learn": 10, "given": 0} | none,
        {"by": "ben", "on": 4, "off": 4, "learn": 0, "given": 8} | none,
    ]
    (pair,) = result["pairs"]
    assert (pair["one"], pair["other"], pair["posts"], pair["same"]) == ("ann", "ben", 8, 0.75)
    assert pair["kappa"] == pytest.approx((0.75 - 0.5) / 0.5)
    assert [post["id"] for post in result["disputed"]] == ["5", "4"]  # the newest first
    assert result["disputed"][0]["labels"] == [
        {"by": "ann", "label": "on"}, {"by": "ben", "label": "off"}
    ]  # fmt: skip


def test_disputed_posts_are_sorted_by_time() -> None:
    times = ("2026-03-01T12:00:00+02:00", "9999-12-31T23:59:59Z", "2026-03-01T03:30:00-07:00")
    labels = [label(n, "ann", "on", at=at) for n, at in enumerate(times)]
    labels += [label(n, "ben", "off", at=at) for n, at in enumerate(times)]
    assert [post["id"] for post in answer(labels)["disputed"]] == ["1", "2", "0"]


def test_the_answer_is_bounded() -> None:
    verdicts: tuple[Verdict, Verdict] = ("on", "off")
    labels = [label(post, f"p{by:03}{EVIL}", verdicts[by % 2])
              for by in range(MOST_PEOPLE + 5) for post in range(MOST_DISPUTED + 5)]  # fmt: skip
    result = answer(labels, "away")
    assert (len(result["counts"]), result["people"]) == (MOST_PEOPLE, MOST_PEOPLE + 5)
    assert (len(result["disputed"]), result["all_disputed"]) == (MOST_DISPUTED, MOST_DISPUTED + 5)
    assert len(result["pairs"]) == 190
    assert max(len(post["labels"]) for post in result["disputed"]) == 20
    assert result["away"] == "away"
