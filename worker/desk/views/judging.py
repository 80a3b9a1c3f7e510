"""Judging: a post is asked about, an answer given, corrected or taken back."""

from typing import Any

import msgspec

from encoder.errors import InputError
from worker.actions.labels.asking import Kind
from worker.desk.desk import Desk
from worker.desk.judging.asked import Asked
from worker.desk.judging.judging import Whose
from worker.desk.server.api import DONE, Act, acts, reads
from worker.judge.labels import Verdict
from worker.seeds.values import EVENT_BYTES


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Whose turn it is, and of which queue."""

    event: str
    by: str
    kind: Kind = "certify"


class InQueue(Act, frozen=True, kw_only=True):
    """Something that is done in a queue, which a page names as it was told."""

    event: str
    kind: Kind
    queue: str


class Answer(InQueue, frozen=True, kw_only=True):
    """What somebody says of a post."""

    platform: str
    id: str
    verdict: Verdict


class Undo(InQueue, frozen=True, kw_only=True):
    """The answer to take back, by the number that it was given."""

    step: int


@reads("/api/judge/ask", Ask)
def ask(desk: Desk, asked: Ask) -> dict[str, Any]:
    """The question now, frozen with all that may follow; or that it is being frozen."""
    whose = _whose(asked)
    kept = desk.judging.queue(whose)
    if kept is None:
        return {"drawing": True}
    return _heard(desk, kept.asked, whose.event).state() | {"drawing": False, "why": kept.why}


def _published(state: dict[str, Any]) -> str:
    """What the audit says of a label: the answer may have stood already, or come too late."""
    if state["published"]:
        return DONE
    return f"not published: {state.get('missed') or 'it stands already'}"


@acts("/api/judge/answer", Answer, "labels.answer", _published)
def answer(desk: Desk, given: Answer) -> dict[str, Any]:
    """Publish an answer; `missed` says why one to a question of before is not."""
    queue = _queue(desk, given)
    missed = queue.answer((given.platform, given.id), given.verdict)
    return queue.state() | {"missed": missed or "", "published": missed is None}


@acts("/api/judge/correct", Answer, "labels.correct", _published)
def correct(desk: Desk, given: Answer) -> dict[str, Any]:
    """Publish another verdict on a post that was judged before."""
    queue = _queue(desk, given)
    published = queue.correct((given.platform, given.id), given.verdict)
    return queue.state() | {"published": published}


@acts("/api/judge/undo", Undo, "labels.undo", _published)
def undo(desk: Desk, given: Undo) -> dict[str, Any]:
    """Take an answer back."""
    queue = _queue(desk, given)
    published = queue.undo(given.step)
    return queue.state() | {"published": published}


@acts(
    "/api/judge/anew", InQueue, "labels.draw",
    lambda gone: DONE if gone else "nothing done: the queue has gone before",
)  # fmt: skip
def anew(desk: Desk, given: InQueue) -> bool:
    """Let the queue go: the next question freezes the matches of then."""
    return desk.judging.begin_anew(_whose(given), given.queue)


def _whose(asked: Ask | InQueue) -> Whose:
    """The queue's name, or a refusal."""
    for key, text in (("event", asked.event), ("by", asked.by)):
        if not 0 < len(text.encode()) <= EVENT_BYTES:
            raise InputError(f"{key}: give a name of 1 to {EVENT_BYTES} bytes")
    return Whose(asked.event, asked.by, asked.kind)


def _queue(desk: Desk, given: InQueue) -> Asked:
    return _heard(desk, desk.judging.of(_whose(given), given.queue), given.event)


def _heard(desk: Desk, queue: Asked, event: str) -> Asked:
    """The queue, with what its person has said elsewhere meanwhile."""
    queue.hear(desk.known.labels.of(event))
    return queue


ENDPOINTS = (ask, answer, correct, undo, anew)
