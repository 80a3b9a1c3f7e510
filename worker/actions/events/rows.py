"""Events, and what they would learn, as rows of JSON."""

import time
from collections.abc import Collection
from typing import Any

from worker.actions.events.compare import Scored
from worker.actions.events.event import KnownEvent
from worker.actions.events.lesson import Proposal
from worker.actions.events.promising import PassRates, lapsed
from worker.actions.events.teacher import Teacher
from worker.kafka.reading import TopicReader

EventRow = dict[str, Any]


def event_rows(
    cluster: TopicReader, teacher: Teacher, found: Collection[KnownEvent]
) -> list[EventRow]:
    """Events as rows, those that promise something with whether that still holds."""
    bound = any(event.profile and event.profile.promise for event in found)
    rates = PassRates(cluster, teacher, int(time.time() * 1000)) if bound else None
    return [
        row_of(event, lapsed(event, rates.of(event.profile) if rates and event.profile else None))
        for event in found
    ]


def row_of(event: KnownEvent, lapsed: str = "") -> EventRow:
    """An event as a row of JSON."""
    made = event.profile.made if event.profile else {}
    cuts = event.thresholds
    return {
        "event": event.name,
        "seeds": [seed.id for seed in event.seeds],
        "profile": event.state,
        "why": event.why or None,
        "version": event.profile.version if event.profile else None,
        "threshold": cuts[0] if len(cuts) == 1 else None,
        "thresholds": list(cuts),
        "automatic": event.profile.threshold is None if event.profile else None,
        "promise": event.profile.promise if event.profile else None,
        "lapsed": lapsed or None,
        "made": made,
    }


def proposal_row(proposal: Proposal, published: bool) -> EventRow:
    """What an event would learn, as a row of JSON."""
    made = proposal.profile.made
    compared = proposal.comparison
    return {
        "event": proposal.event.name,
        "published": published,
        "version": proposal.profile.version,
        "threshold": {"before": list(proposal.cuts[0]), "after": list(proposal.cuts[1])},
        "read": compared.read,
        "hours": round(proposal.hours, 4),
        "passes": dict(zip(("before", "after"), compared.passes, strict=True)),
        "per_1000_of_the_background": dict(
            zip(("before", "after"), proposal.of_background, strict=True)
        ),
        "come": [_post_row(each) for each in compared.come],
        "go": [_post_row(each) for each in compared.go],
        "made": made,
    }


def _post_row(each: Scored) -> EventRow:
    post = each.post
    return {"platform": post.platform, "id": post.id, "score": each.score, "text": post.text}
