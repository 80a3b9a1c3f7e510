"""Near misses are listed newest first, bounded, with the words that made their scores."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from newsift.desk.scoring import measure_of
from newsift.desk.views.scores import MOST_ROWS, NAME_CHARS, TEXT_CHARS, near_rows
from newsift.operations.model_context import ModelContext
from tests.newsift.desk.scene import EVENT, seeds_of, view_of
from worker.match.reservoir import NearAnswer, NearMiss, Stratum
from worker.posts.outcome import Post


def answer(*posts: Post) -> NearAnswer:
    remaining = tuple(NearMiss(post, 0.25) for post in posts)
    return NearAnswer(EVENT, "0" * 12, {"river": (0.5, 0.4, 0.3)}, (Stratum(9, remaining),), 100)


def test_the_newest_come_first_and_their_words_are_lit(teacher: ModelContext) -> None:
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


def test_many_are_not_shown_and_long_ones_are_cut(teacher: ModelContext) -> None:
    measure = measure_of(teacher, view_of(teacher, seeds_of()), EVENT)
    posts = [Post(str(n), "x", "storm " * 300, author="a" * 900, url="u" * 5000) for n in range(99)]
    rows = near_rows(measure, [answer(*posts)], {})
    assert len(rows) == MOST_ROWS
    assert {(len(row["text"]), len(row["author"]), row["url"]) for row in rows} == {
        (TEXT_CHARS, NAME_CHARS, None)
    }


ODD = st.tuples(st.text(), st.text(), st.none() | st.text())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.lists(ODD, max_size=5))
def test_whatever_a_stranger_wrote_is_listed(
    teacher: ModelContext, said: list[tuple[str, str, str | None]]
) -> None:
    measure = measure_of(teacher, view_of(teacher, seeds_of()), EVENT)
    posts = [Post(str(n), "x", text, who, at) for n, (text, who, at) in enumerate(said)]
    rows = near_rows(measure, [answer(*posts)], {})
    assert {row["id"] for row in rows} == {str(n) for n in range(len(posts))}
