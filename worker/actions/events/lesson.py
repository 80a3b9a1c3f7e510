"""One lesson of an event: what there is is read, a profile made of it, and compared with before."""

from dataclasses import dataclass, replace
from typing import Any

from worker.actions.events.compare import Comparison
from worker.actions.events.event import KnownEvent, Values, alone, thresholds_by_event
from worker.actions.events.stream import Window
from worker.actions.events.teacher import Lesson, Teacher
from worker.actions.offline import present
from worker.actions.who import myself
from worker.posts.outcome import Post
from worker.seeds.profile import Profile

Labelled = tuple[list[Post], list[Post]]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A profile that an event could get, and what would change."""

    event: KnownEvent
    profile: Profile
    value: bytes
    comparison: Comparison
    cuts: tuple[tuple[float, ...], tuple[float, ...]]  # thresholds before and after
    of_background: tuple[float, float]  # posts of 1,000 that pass, before and after
    hours: float  # that the stream took
    lesson: Lesson

    @property
    def is_news(self) -> bool:
        """Whether it differs from what is there."""
        old = self.event.profile
        same = old is not None and (old.vectors, old.seeds) == (
            self.profile.vectors,
            self.profile.seeds,
        )
        return not same


def proposed(
    teacher: Teacher, event: KnownEvent, values: Values, window: Window | None, labels: Labelled,
    attempt: int,
) -> Proposal:  # fmt: skip
    """What an event would learn from a window of the stream, if there is one, and from labels."""
    lesson = Lesson() if window is None else window.lesson(teacher.start(event.seeds))
    lesson = replace(lesson, on=labels[0], off=labels[1])
    profile = teacher.taught(event, lesson, made_now() | {"attempts": attempt})
    value = profile.value(teacher.config.limits)
    old = event.profile.value(teacher.config.limits) if event.profile else None
    before = teacher.set_of_one(alone(event, values, old))
    after = teacher.set_of_one(alone(event, values, value))
    comparison = Comparison(before, after)
    if window is not None:
        window.compare(comparison)
    cuts = [thresholds_by_event(seeds).get(event.name, ()) for seeds in (before, after)]
    background = comparison.of_the_background(teacher.background)
    hours = window.hours if window else 0.0
    return Proposal(
        event, profile, value, comparison, (cuts[0], cuts[1]), background, hours, lesson
    )


def made_now() -> dict[str, Any]:
    """When and by whom a profile is made."""
    return {"at": present(), "by": myself()}
