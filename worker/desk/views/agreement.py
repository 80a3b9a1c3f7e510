"""Who judged an event's posts: how much, how far two agree, and where they do not."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from worker.desk.desk import Desk
from worker.desk.judging.asked import shown_post
from worker.desk.server.api import Nothing, OfEvent, reads
from worker.judge.agreement import MOST_JUDGES, agreements, labels_by_person
from worker.judge.labels import Label, PostId
from worker.posts.times import milliseconds, utc

MOST_PEOPLE = 100  # whose counts are shown, by their names
MOST_APART = 50  # posts that are shown, the newest labels first


@reads("/api/judge/judges", OfEvent)
def judges(desk: Desk, asked: OfEvent) -> dict[str, Any]:
    """Counts by person, κ of each two, and the posts of which they do not say the same."""
    labels = desk.known.labels.of(asked.event)
    counts = labels_by_person(labels)
    apart = _apart(labels)
    return {
        "counts": counts[:MOST_PEOPLE],
        "people": len(counts),
        "pairs": [asdict(pair) for pair in agreements(labels)],
        "apart": [_differing(own) for own in apart[:MOST_APART]],
        "apart_in_all": len(apart),
        "away": desk.known.of_labels.away if counts else "",
    }


def _apart(labels: Iterable[Label]) -> list[list[Label]]:
    """The labels of each post on which not all say the same, the newest post first."""
    said: defaultdict[PostId, list[Label]] = defaultdict(list)
    for label in labels:
        said[label.post_id].append(label)
    apart = [own for own in said.values() if len({label.label for label in own}) > 1]
    return sorted(apart, key=_newest, reverse=True)


def _newest(labels: list[Label]) -> tuple[int, PostId]:
    """When the last of them was given; the post decides between two of one moment."""
    return max(milliseconds(utc(label.at)) for label in labels), labels[0].post_id


def _differing(own: list[Label]) -> dict[str, Any]:
    by_name = sorted(own, key=lambda label: label.by)[:MOST_JUDGES]
    return shown_post(own[0].post) | {
        "score": own[0].score,
        "said": [{"by": label.by, "label": label.label} for label in by_name],
    }


@reads("/api/judge/left-out", Nothing)
def left_out(desk: Desk, _asked: Nothing) -> dict[str, int]:
    """How many labels no page shows, of all events: for want of room, and as they are none."""
    judged = desk.known.labels
    return {"left_out": judged.book.left_out, "refused": len(judged.refused)}


ENDPOINTS = (judges, left_out)
