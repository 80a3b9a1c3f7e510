"""What one person says of an event's posts: each answer is published before it counts."""

from collections.abc import Callable, Iterable, Mapping

from worker.actions.labels.candidates import Found
from worker.actions.offline import present
from worker.judge.labels import Label, PostId, Verdict
from worker.judge.queues import Question

Publish = Callable[[bytes, bytes | None], None]  # until the broker has acknowledged it


class Answers:
    """The labels of one person on the posts of an event, and the way back, step by step."""

    def __init__(
        self, event: str, by: str, found: Mapping[PostId, Found], known: Iterable[Label],
        publish: Publish,
    ) -> None:  # fmt: skip
        self._event, self._by = event, by
        self._found, self._publish = found, publish
        self._labels = {label.post_id: label for label in known if label.by == by}
        self._given: list[tuple[Label, Label | None]] = []  # with what stood there before
        self._own: set[PostId] = set()  # answered here, or taken back: known better than elsewhere

    @property
    def given(self) -> int:
        """How many answers were given here and stand."""
        return len(self._given)

    @property
    def last(self) -> Label | None:
        """The answer that would be taken back."""
        return self._given[-1][0] if self._given else None

    def label_of(self, post_id: PostId) -> Label | None:
        """What this person says of a post."""
        return self._labels.get(post_id)

    def said(self) -> dict[PostId, bool]:
        """Whether each post is on the event, by this person; safe while another answers."""
        return {name: label.label == "on" for name, label in self._labels.copy().items()}

    def hear(self, labels: Iterable[Label]) -> None:
        """Take over what this person has said elsewhere of posts that were not answered here."""
        heard = {label.post_id: label for label in labels if label.by == self._by}
        self._labels |= {name: heard[name] for name in heard.keys() - self._own}

    def give(self, question: Question, verdict: Verdict) -> Label:
        """Publish the answer to a question; it counts once the broker has it."""
        candidate = question.candidate
        found = self._found.get(candidate.post_id)
        seed_set, model = (found.record.seed_set, found.record.model) if found else (None, None)
        label = Label(
            verdict, self._event, candidate.post, self._by, present(), question.drawn,
            question.probability, candidate.score, seed_set, model, question.queue,
        )  # fmt: skip
        self.replace(label)
        return label

    def replace(self, label: Label) -> None:
        """Publish a label in the place of what stands there."""
        self._publish(label.key, label.value)
        self._own.add(label.post_id)
        self._given.append((label, self._labels.get(label.post_id)))
        self._labels[label.post_id] = label

    def take_back(self) -> Label:
        """Publish what stood there before the last answer, or that there was none."""
        label, before = self._given[-1]
        self._publish(label.key, None if before is None else before.value)
        self._given.pop()
        del self._labels[label.post_id]
        if before is not None:
            self._labels[label.post_id] = before
        return label
