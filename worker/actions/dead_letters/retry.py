"""Dead letters sent to the posts topic again, and shown once the broker has them."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from encoder.errors import InputError
from worker.actions.dead_letters.read import DeadLetter, Mark, dead_letters_of, sent_again
from worker.actions.dead_letters.turn import in_turn
from worker.actions.told import say, tallied
from worker.config import Config
from worker.kafka.reading import TopicReader, connected
from worker.kafka.sending import sending

GRACE_S = 5.0

Show = Callable[[DeadLetter], object]


@dataclass(frozen=True, slots=True)
class Choice:
    """Which dead letters are to be sent again: those of these ids, else all, or of one reason."""

    names: frozenset[str] = frozenset()
    reason: str | None = None
    start: int | None = None

    def of(self, cluster: TopicReader, config: Config) -> Iterator[DeadLetter]:
        """Those that are there now."""
        for letter in dead_letters_of(cluster, config, self.start):
            if letter.id in self.names if self.names else self.reason in (None, letter.reason):
                yield letter


@dataclass
class Sent:
    """What is sent again, how much of it the broker has and was shown, and why others stay."""

    show: Show
    count: int = 0
    kept: Counter[str] = field(default_factory=Counter)
    under_way: deque[DeadLetter] = field(default_factory=deque)

    def tell(self, delivered: int) -> None:
        """Show those that are delivered by now."""
        for _ in range(delivered - self.count):
            self.show(self.under_way.popleft())
            self.count += 1


def retry_letters(config: Config, choice: Choice, show: Show) -> Sent:
    """Send the chosen letters again when it is our turn, each shown once the broker has it."""
    with in_turn(config), connected(config) as cluster:
        cluster.partitions(config.topics.posts)
        done = sent_again(cluster, config, choice.of(cluster, config))
        if choice.names:
            _check(choice.names, done, choice.of(cluster, config))
        return _resend(config, choice.of(cluster, config), done, show)


def _check(wanted: frozenset[str], done: set[Mark], there: Iterable[DeadLetter]) -> None:
    """Refuse, before anything is sent, ids that are unknown or that cannot be retried."""
    found = {letter.id: _obstacle(letter, done) for letter in there}
    for name in sorted(wanted):
        if name not in found:
            raise unknown(name)
        if obstacle := found[name]:
            raise InputError(f"dead letter {name!r}: cannot be retried: {obstacle}")


def _resend(config: Config, chosen: Iterable[DeadLetter], done: set[Mark], show: Show) -> Sent:
    """Send the chosen ones again, show those that the broker has, and count all others."""
    with sending(config) as outbox:
        sent = Sent(show)
        try:
            for letter in chosen:
                if obstacle := _obstacle(letter, done):
                    sent.kept[obstacle] += 1
                    continue
                message = letter.message
                sent.under_way.append(letter)
                outbox.send(config.topics.posts, message.value, message.key, letter.again)
                sent.tell(outbox.delivered)
            outbox.settle()
        finally:
            sent.tell(outbox.drained(GRACE_S))
            others = f"; not retried: {tallied(sent.kept)}" if sent.kept else ""
            say(f"{sent.count:,} sent again{others}")
    return sent


def _obstacle(letter: DeadLetter, done: set[Mark]) -> str | None:
    return letter.obstacle or ("it was sent again before" if letter.mark in done else None)


def unknown(name: str) -> InputError:
    """What is said of an id that no dead letter has."""
    return InputError(f"dead letter {name!r}: there is none; see newsift dead-letters list")
