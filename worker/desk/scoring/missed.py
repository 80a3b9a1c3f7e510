"""The near misses of an event as its page lists them: newest first, the words lit."""

from collections.abc import Mapping, Sequence
from typing import Any

from worker.actions.labels.near import candidates_in
from worker.desk.scoring.measure import Measure
from worker.judge.draw import Candidate
from worker.judge.labels import PostId, Verdict
from worker.judge.reservoir import NearAnswer
from worker.posts.times import milliseconds, utc
from worker.visible import cut

SHOWN = 50
TEXT, NAME, WORD = 600, 200, 60  # characters that are shown
LINK = 1_000


def missed_rows(
    measure: Measure, answers: Sequence[NearAnswer], said: Mapping[PostId, Verdict]
) -> list[dict[str, Any]]:
    """The newest of those that are kept."""
    newest = sorted(candidates_in(answers), key=_came, reverse=True)[:SHOWN]
    why = measure.why([each.post.text for each in newest]) if len(measure.rows) else []
    told = [*why, *[[] for _ in newest]]
    return [_row(each, words, said) for each, words in zip(newest, told, strict=False)]


def _came(near: Candidate) -> tuple[int, float]:
    """When a post was written; one that does not say comes last."""
    at = utc(near.post.created_at)
    return (milliseconds(at) if at else -1), near.score


def _row(
    near: Candidate, why: Sequence[tuple[str, float]], said: Mapping[PostId, Verdict]
) -> dict[str, Any]:
    post = near.post
    return {
        "id": post.id,
        "platform": post.platform,
        "text": cut(post.text, TEXT),
        "author": cut(post.author or "", NAME),
        "created_at": utc(post.created_at),
        "url": post.url if len(post.url or "") <= LINK else None,
        "score": near.score,
        "why": [(cut(word, WORD), part) for word, part in why],
        "said": said.get(near.post_id),
    }
