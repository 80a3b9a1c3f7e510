"""Seeds that would blind the operator, fill the log, or hold every worker up."""

import json
from collections.abc import Callable
from functools import partial

import pytest

from newsift.cli import run
from tests.broker.clients import until
from tests.hostile.attack import attacked
from tests.hostile.conftest import waits_long
from tests.hostile.shapes import marks
from tests.hostile.target import ARTICLE, Target, post, seed

ARTICLES: dict[str, Callable[[], str]] = {
    "t": lambda: "t" * 24_000 + "/",
    "ht": lambda: "ht" * 45_000 + "…",
    "dots": lambda: "a." * 45_000 + "/",
    "word": lambda: "жщ" * 45_000,
    "emoji": lambda: "🌪" * 22_000,
    "marks": lambda: marks(20_000),
}
EDGES = [
    "9999-12-31T23:59:59-01:00", "9999-12-31T23:59:59.999999999Z", "0001-01-01T00:00:00+23:59",
    "0001-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z", "2016-12-31T23:59:60Z",
    "2026-01-01T00:00:00+99:99", "٢٠٢٦-01-01T00:00:00Z",
]  # fmt: skip


@pytest.mark.parametrize("name", ARTICLES)
def test_an_article_costs_no_more_than_a_few_ordinary_ones(target: Target, name: str) -> None:
    def cost(text: str, is_there: Callable[[], object]) -> float:
        with attacked(target) as attack:
            target.write("seeds", [seed(text)], key=b"article")
            until(is_there)
        target.forget(b"article")
        return attack.cpu_s

    ordinary = cost("the cat and a game of music. " * 3_000, lambda: target.live("article"))
    there = (
        (lambda: "limits.marks" in target.refused("article"))
        if name == "marks"
        else (lambda: target.live("article") or target.refused("article"))
    )
    assert cost(ARTICLES[name](), there) < 6 * ordinary + 0.5


def test_many_refused_seeds_are_logged_once(target: Target) -> None:
    names = [b"bad-%d" % n for n in range(5000)]
    with attacked(target):
        target.keyed("seeds", [(name, b'{"text": 5}') for name in names])
        until(lambda: target.refused("bad-4999"))
        lines = target.worker.said.count("\n")
        for n in range(3):
            target.write("seeds", [seed(f"a game of music {n}")], key=b"after-%d" % n)
            until(partial(target.live, f"after-{n}"))
        assert target.worker.said.count("\n") - lines < 50
    target.forget(*names, b"after-0", b"after-1", b"after-2")


def test_seeds_with_extreme_times_are_listed(
    target: Target, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"edge-{n}" for n in range(len(EDGES))]
    monkeypatch.setenv("NEWSIFT_CONFIG", str(target.config))
    with attacked(target):
        for name, at in zip(names, EDGES, strict=True):
            target.write("seeds", [seed(ARTICLE, expires_at=at)], key=name.encode())
        until(lambda: target.live(names[-1]) or target.refused(names[-1]))
        for command in ("seeds list", "seeds list --json", "status", f"seeds show {names[0]}"):
            assert run(command.split()) == 0, (command, capsys.readouterr().err)
        listed = target.seeds()
        assert set(names) <= {row["id"] for row in [*listed["live"], *listed["refused"]]}
    target.forget(*(name.encode() for name in names))


@waits_long
def test_a_post_that_reaches_20000_seeds_names_the_best(own_target: Target) -> None:
    """4,096 posts that each reach 20,000 seeds: the best are named, all are counted."""
    target = own_target
    count = 20_000
    words = ARTICLE.split()
    with attacked(target):
        target.keyed(
            "seeds",
            (
                (b"low-%d" % n, seed(f"{words[n % 5]} {words[n % 3]} {n}", threshold=1e-6))
                for n in range(count)
            ),
        )
        until(lambda: len(target.seeds()["live"]) == count + 1)
    with attacked(target) as attack:
        attack.posts([post(f"low-{n}", ARTICLE) for n in range(4096)])
    first = next(r for r in target.matches.look() if r.key == b"low-0")
    row = json.loads(first.value)
    assert len(row["matches"]) == 10
    assert row["matched"] > count // 2
