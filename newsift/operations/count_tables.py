"""A count in rows and sentences, for commands and the desk; and its frame, a row for each post.

The frame is what design-based supervised learning (R's `dsl`) and prediction-powered inference ask
for: a prediction for every post, and for those that were drawn the label; the probability of the
draw for all. Workers keep the scores of few near misses, so the prediction of each of them is 0: it
must not depend on whether a post was drawn.
"""

from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import Any

import numpy as np

from newsift.files.rows import POST_FIELDS, Cell, csv_row
from newsift.operations.counts import EventCount, EventPosts
from newsift.statistics.count_draw import MATCH_STRATA, frame_key
from newsift.statistics.count_frame import (
    CountedPost,
    CountFrame,
    CountSeries,
    PeriodCount,
    labels_of,
    unlabelled_near_misses,
)
from newsift.statistics.counts import CONFIDENCE, MAX_CHANCE
from newsift.statistics.labels import StratumName, Verdict
from worker.posts.outcome import Post
from worker.posts.times import DAY_MS, HOUR_MS, rfc3339
from worker.text import plural

STEPS = {"day": DAY_MS, "hour": HOUR_MS}
PERIOD_CHARS = {DAY_MS: len("2026-01-31"), HOUR_MS: len("2026-01-31T12:00")}
NO_TIME = "no time"  # a post of a file need not have one
ON: Mapping[Verdict, float] = {"on": 1, "off": 0, "unsure": 0.5}
NEAR_PREDICTION = 0
FRAME_COLUMNS = (
    "event", "period", "platform", "post_id", *POST_FIELDS, "label", "on", "prediction", "stratum",
    "stratum_posts", "stratum_labels", "probability",
)  # fmt: skip


def period_name(start: int, step: int) -> str:
    """A day, or the start of an hour in UTC."""
    if start <= 0:
        return NO_TIME
    text = rfc3339(start - start % step)[: PERIOD_CHARS[step]]
    return text if step == DAY_MS else f"{text}Z"


def period_row(event: str, period: PeriodCount, series: CountSeries, step: int) -> dict[str, Any]:
    low, value, high = period.estimate
    return {
        "event": event,
        "period": None if period.start is None else period_name(period.start, step),
        "matches": period.matches,
        "near": period.near,
        "count": round(value, 1),
        "low": round(low, 1),
        "high": None if series.missing else round(high, 1),
        "labels": period.labels,
        "own_labels": period.has_own_labels,
    }


def frame_row(frame: CountFrame, series: CountSeries) -> dict[str, Any]:
    return {
        "confidence": CONFIDENCE,
        "since": rfc3339(frame.since),
        "until": rfc3339(frame.until),
        "seed_set": frame.scored_by[0],
        "planned": frame.planned,
        "stopped": series.stopped,
        "missing": series.missing,
        "chance": round(series.chance, 3),
    }


def describe(frame: CountFrame, series: CountSeries) -> tuple[list[str], list[str]]:
    """What a count speaks of and rests on, and warnings."""
    until = rfc3339(frame.until)
    posts = (
        f"from {rfc3339(frame.since)} to {until}" if frame.since else f"of the file, drawn {until}"
    )
    not_counted = "posts that were not read, or that score lower, are not counted"
    notes = [f"matches and near misses {posts}; {not_counted}"]
    if series.stopped:
        notes.append(
            f"{len(frame.posts):,} of {frame.planned:,} drawn posts are labelled: the intervals "
            "hold whenever you stop, and narrow most once all are labelled"
        )
    warnings = []
    if series.missing:
        warnings.append(f"an upper end needs {plural(series.missing, 'more label')}")
    if not all(period.has_own_labels for period in series.periods):
        notes.append(
            "a period without 30 labels of its own assumes that matches of one band of score are "
            "as often on the event in all periods"
        )
        if series.chance < MAX_CHANCE:
            warnings.append(
                "by the labels, bands are not as often on the event in all periods (permutation "
                f"test: p = {series.chance:.3f}); trust the total and periods with labels of their "
                "own, or ask for more labels"
            )
    return notes, warnings


def frame_lines(
    source: EventPosts, count: EventCount, step: int, *, unlabelled: bool
) -> Iterator[str]:
    """CSV. The posts of a story group that was labelled have its label.

    A labelled match that the topic has lost since has no prediction; others that it has lost are
    left out. `unlabelled` adds the posts without a label; near misses among them have no name.
    """
    frame, posts = count.frame, count.posts

    def line(
        stratum: StratumName, start: int | None, post: Post | None,
        prediction: float | None, counted: CountedPost | None,
    ) -> str:  # fmt: skip
        """`start` is a time in the period; None if it is unknown."""
        size, drawn = frame.strata[stratum]
        names: tuple[Cell, ...] = (None,) * (2 + len(POST_FIELDS))
        if post is not None:
            fields = (getattr(post, name) for name in POST_FIELDS)
            names = (post.platform, post.id, *fields)
        label = (counted.verdict, ON[counted.verdict]) if counted else (None, None)
        return csv_row([
            source.event, None if start is None else period_name(start, step), *names, *label,
            prediction, stratum, size, drawn, 1 if stratum == "story" else drawn / size,
        ])  # fmt: skip

    labels = labels_of(frame, posts)
    strata, is_listed = frame.divide(posts).stratum, np.zeros(len(posts), bool)
    yield csv_row(FRAME_COLUMNS)
    for match in source.rows(frame.since):
        key = frame_key(match.post_id, frame.nonce)
        place = int(np.searchsorted(posts.keys, np.uint64(key)))
        is_of_frame = match.scored_by == frame.scored_by and match.came <= frame.until
        if not is_of_frame or place == len(posts) or posts.keys[place] != key or is_listed[place]:
            continue
        is_listed[place], counted = True, labels.get(key)
        if counted is None and not unlabelled:
            continue
        shown = match.without_content() if match.post_id in count.deleted else match
        stratum, at = MATCH_STRATA[strata[place]], int(posts.times[place])
        yield line(stratum, at, shown.post, match.score, counted)
    listed = set(posts.keys[is_listed].tolist())
    for counted in frame.posts:
        is_near = counted.draw.stratum == "near"
        if is_near or frame_key(counted.label.post_id, frame.nonce) not in listed:
            prediction = NEAR_PREDICTION if is_near else None
            draw = counted.draw
            yield line(draw.stratum, draw.timestamp, counted.label.post, prediction, counted)
    if not unlabelled:
        return
    for start, number in unlabelled_near_misses(frame, count.near_hours, step).items():
        yield from repeat(line("near", start, None, NEAR_PREDICTION, None), number)
