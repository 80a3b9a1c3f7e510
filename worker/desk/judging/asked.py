"""A queue while somebody is asked: the question now, what comes after it, and the way back."""

import secrets
from collections.abc import Iterable, Sequence
from itertools import count
from threading import Lock
from typing import Any

import msgspec

from encoder.errors import InputError
from worker.actions.labels.answers import Answers
from worker.actions.labels.asking import Frozen
from worker.actions.offline import present
from worker.desk.turn import one_at_a_time
from worker.judge.labels import Label, PostId, Verdict
from worker.judge.queues import Question
from worker.match.records import WHY_TOKENS
from worker.posts.outcome import Post

MOST = {"text": 50_000, "url": 2_000, "author": 200, "created_at": 40, "lang": 40}  # characters
ON_ITS_WAY = "an answer before this one is still on its way"

State = dict[str, Any]


class Asked:
    """One person's queue, for all tabs in which he is asked; from several threads."""

    def __init__(self, frozen: Frozen, answers: Answers, told: Sequence[str] = ()) -> None:
        """`told` is what was said while it was frozen."""
        self.token, self.at = secrets.token_hex(8), present()
        self.size, self.empty = len(frozen.found), frozen.queue.next({}) is None
        self._frozen, self._answers, self._told = frozen, answers, tuple(told)
        self._queue, self._turn = frozen.queue, Lock()
        self._numbers = count(1)
        self._steps: list[int] = []  # of the answers that stand, as the page names them
        self._changes = 0

    @property
    def version(self) -> str:
        """The profile's, when this was frozen; empty without one."""
        return self._frozen.profile.version if self._frozen.profile else ""

    def hear(self, labels: Iterable[Label]) -> None:
        """Take over what the same person has said elsewhere."""
        self._answers.hear(labels)

    def state(self) -> State:
        """The question now and the one after each answer, how far it is, and what z takes back."""
        changes, said = self._changes, self._answers.said()
        question, last = self._queue.next(said), self._answers.last
        steps, judged = self._steps.copy(), sum(name in self._frozen.found for name in said)
        return {
            "queue": self.token, "at": self.at, "matches": self.size, "empty": self.empty,
            "told": self._told,
            "turn": changes, "judged": judged, "progress": self._queue.told(said),
            "question": self._card(question), "then": self._then(question, said),
            "left": self._queue.left(said),
            "undo": None if last is None or not steps else {"step": steps[-1], "label": last.label},
        }  # fmt: skip

    def answer(self, post_id: PostId, verdict: Verdict) -> str | None:
        """Publish an answer to the question now; else say why not, empty where it stands already.

        The same answer again changes nothing, as a page may ask twice whether it was heard.
        """
        with one_at_a_time(self._turn, ON_ITS_WAY):
            question = self._queue.next(self._answers.said())
            if question is not None and question.candidate.post_id == post_id:
                self._answers.give(question, verdict)
                self._count_step()
                return None
        stands = self._answers.label_of(post_id)
        if stands is None:
            return "the answer before it was taken back: the post comes again"
        return "" if stands.label == verdict else f"{stands.label!r} was answered meanwhile"

    def correct(self, post_id: PostId, verdict: Verdict) -> bool:
        """Publish another verdict on a post that this person has judged, drawn as it was.

        False where it stands already.
        """
        with one_at_a_time(self._turn, ON_ITS_WAY):
            stands = self._answers.label_of(post_id)
            if stands is None:
                raise InputError("post: you have not judged it; only your own answer can change")
            if stands.label == verdict:
                return False
            self._answers.replace(msgspec.structs.replace(stands, label=verdict, at=present()))
            self._count_step()
            return True

    def undo(self, step: int) -> bool:
        """Publish what stood before the last answer; False where that was done before."""
        with one_at_a_time(self._turn, ON_ITS_WAY):
            if step not in self._steps:
                return False
            if step != self._steps[-1]:
                raise InputError("undo: something was answered since, in another tab; look again")
            self._answers.take_back()
            self._steps.pop()
            self._changes += 1
            return True

    def _count_step(self) -> None:
        self._steps.append(next(self._numbers))
        self._changes += 1

    def _then(self, question: Question | None, said: dict[PostId, bool]) -> State | None:
        if question is None:
            return None
        name = question.candidate.post_id
        return {
            "on": self._card(self._queue.next(said | {name: True})),
            "off": self._card(self._queue.next(said | {name: False})),
        }

    def _card(self, question: Question | None) -> State | None:
        """A post as somebody is to see it, without how it was drawn."""
        if question is None:
            return None
        candidate = question.candidate
        found = self._frozen.found.get(candidate.post_id)
        return shown_post(candidate.post) | {
            "score": candidate.score,
            "threshold": found.match.threshold if found else None,
            "why": found.match.why[:WHY_TOKENS] if found else (),
        }


def shown_post(post: Post) -> State:
    """A post as the page gets it: whoever may write to the topic bounds nothing but its name."""
    said = msgspec.to_builtins(post)
    return {name: text[: MOST.get(name, len(text))] for name, text in said.items()}
