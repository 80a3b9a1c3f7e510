"""Somebody at a terminal who is asked about posts, and may take back what he said."""

from collections.abc import Callable

import click

from worker.actions.labels.answers import Answers
from worker.actions.labels.asking import Frozen
from worker.cli.terminal import colour_wanted, single_keys
from worker.cli.view.lit import lit_text
from worker.cli.view.table import page_width
from worker.cli.view.wrap import wrapped
from worker.judge.labels import Verdict
from worker.judge.queues import Question
from worker.visible import one_line

ANSWERS: dict[str, Verdict] = {"y": "on", "n": "off", "u": "unsure"}
UNDO, QUIT, ESCAPE = ("z", "\x7f", "\x08"), ("q", "\x04"), "\x1b"
MOST_LINES = 40  # of a post as it was written; one of more is shown as running text
KEYS = "[y] on  [n] off  [u] unsure  [z] undo  [q] quit"


class Session:
    """The questions of a queue, and the answers of one person."""

    def __init__(self, asked: Frozen, answers: Answers) -> None:
        self._asked, self._queue, self._answers = asked, asked.queue, answers
        self._pressed = ""

    def run(self) -> None:
        """Ask until there is nothing left, or nobody who answers."""
        with single_keys() as keys:
            while (question := self._queue.next(self._answers.said())) is not None:
                self._show(question)
                while (answer := self._answer(question, self._key(keys))) is None:
                    pass
                if not answer:
                    break
        told = self._queue.told(self._answers.said())
        click.echo(f"{self._answers.given:,} labels given; {told}")

    def _answer(self, question: Question, key: str) -> bool | None:
        """Act on one key: whether to go on; None where it means nothing."""
        if key in ANSWERS:
            self._answers.give(question, ANSWERS[key])
            click.echo(f"  {ANSWERS[key]}")
            return True
        if key in UNDO and self._answers.given:
            self._answers.take_back()
            click.echo("  undone")
            return True
        return False if key in QUIT else None

    def _key(self, keys: Callable[[], str]) -> str:
        """The next key; fast ones come together, and an arrow as several, which mean nothing."""
        if not self._pressed:
            self._pressed = keys().lower() or QUIT[0]
        if self._pressed.startswith(ESCAPE):
            self._pressed = ""
        key, self._pressed = self._pressed[:1], self._pressed[1:]
        return key

    def _show(self, question: Question) -> None:
        """The post whole, its words lit, and how far it is."""
        post, found = question.candidate.post, self._asked.found.get(question.candidate.post_id)
        colour, why = colour_wanted(), found.match.why if found else ()
        score = f"{question.candidate.score:.3f}"
        score += f" (threshold {found.match.threshold:.3f})" if found else " (below the threshold)"
        head = [score, post.platform, post.author, post.created_at, post.url]
        click.echo(f"\n{'  '.join(one_line(part) for part in head if part)}")
        paragraphs = [line for line in map(one_line, post.text.splitlines()) if line]
        whole = paragraphs if len(paragraphs) <= MOST_LINES else [one_line(post.text)]
        for line in (line for each in whole for line in wrapped(each, page_width() - 2)):
            click.echo(f"  {lit_text(line, why, colour)}", color=colour)
        click.echo(f"{self._queue.told(self._answers.said())}   {KEYS}")
