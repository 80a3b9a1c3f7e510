"""Measures, and the list of near misses: newest first, bounded, with contributions."""

from newsift.desk.matches import MatchStore
from newsift.desk.scoring import Scores, measure_of
from newsift.desk.views.scores import MOST_ROWS, NAME_CHARS, TEXT_CHARS, near_rows
from newsift.operations.model_context import ModelContext
from tests.newsift.desk.scene import EVENT, FixedModel, seeds_of, view_of
from worker.match.reservoir import NearAnswer, NearMiss, Stratum
from worker.posts.outcome import Post


def answer(*posts: Post) -> NearAnswer:
    remaining = tuple(NearMiss(post, 0.25) for post in posts)
    return NearAnswer(EVENT, "0" * 12, {"river": (0.5, 0.4, 0.3)}, (Stratum(9, remaining),), 100)


def test_the_newest_come_first_with_contributions(teacher: ModelContext) -> None:
    measure = measure_of(teacher, view_of(teacher, seeds_of()), EVENT)
    posts = [
        Post("1", "x", "storm cat", created_at="2026-11-22T10:00:00Z"),
        Post("2", "x", "the river", created_at="yesterday"),
        Post("3", "x", "flood music", created_at="Sun Nov 22 11:00:00 +0000 2026"),
    ]
    rows = near_rows(measure, [answer(*posts)], {("x", "1"): "off"})
    assert [row["id"] for row in rows] == ["3", "1", "2"]
    assert [row["label"] for row in rows] == [None, "off", None]
    assert [row["created_at"] for row in rows][2] is None
    best = teacher.enc.posts(["storm cat"]).similarity(measure.rows)[0].argmax()
    (parts,) = teacher.enc.contributions(["storm cat"], measure.rows, [(0, int(best))])
    assert dict(rows[1]["why"]) == {word: round(part, 6) for word, part in parts if round(part, 6)}


def test_near_misses_are_bounded(teacher: ModelContext) -> None:
    measure = measure_of(teacher, view_of(teacher, seeds_of()), EVENT)
    posts = [Post(str(n), "x", "storm " * 300, author="a" * 900, url="u" * 5000) for n in range(99)]
    rows = near_rows(measure, [answer(*posts)], {})
    assert len(rows) == MOST_ROWS
    assert {(len(row["text"]), len(row["author"]), row["url"]) for row in rows} == {
        (TEXT_CHARS, NAME_CHARS, None)
    }


def test_a_measure_is_the_same_object_until_the_control_topic_changes(
    teacher: ModelContext,
) -> None:
    model = FixedModel(teacher, view_of(teacher, seeds_of()))
    scores = Scores(MatchStore(teacher.config), model)
    first = scores.measure(EVENT)
    assert scores.measure(EVENT) is first
    model.current_view = view_of(teacher, seeds_of(threshold=0.5))
    assert scores.measure(EVENT).cuts.tolist() == [0.5, 0.5]
