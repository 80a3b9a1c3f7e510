"""Dead letters sent to the posts topic again, and shown once the broker has them."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from encoder.errors import InputError
from worker.actions.dead_letters.read import DeadLetter, dead_letters_of, original, sent_again
from worker.actions.dead_letters.turn import in_turn
from worker.actions.told import say, tallied
from worker.config import Config
from worker.kafka.reading import TopicReader, connected
from worker.kafka.sending import sending

GRACE_S = 5.0

Show = Callable[[DeadLetter], object]


class Obstacle(str):
    """Why a dead letter cannot be sent again."""


ValueOf = Callable[[DeadLetter], bytes | Obstacle]


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
    with in_turn(config), connected(config) as cluster, connected(config) as posts:
        cluster.partitions(config.topics.posts)
        done = sent_again(cluster, config, choice.of(cluster, config))

        def value_of(letter: DeadLetter) -> bytes | Obstacle:
            if letter.obstacle:
                return Obstacle(letter.obstacle)
            if letter.mark in done:
                return Obstacle("it was sent again before")
            value = letter.message.value
            value = original(posts, config, letter) if value is None else value
            return Obstacle("the original is gone") if value is None else value

        if choice.names:
            _check(choice.names, value_of, choice.of(cluster, config))
        return _resend(config, choice.of(cluster, config), value_of, show)


def _check(wanted: frozenset[str], value_of: ValueOf, there: Iterable[DeadLetter]) -> None:
    """Refuse, before anything is sent, ids that are unknown or that cannot be retried."""
    found = {letter.id: value_of(letter) for letter in there}
    for name in sorted(wanted):
        if name not in found:
            raise unknown(name)
        if isinstance(obstacle := found[name], Obstacle):
            raise InputError(f"dead letter {name!r}: cannot be retried: {obstacle}")


def _resend(config: Config, chosen: Iterable[DeadLetter], value_of: ValueOf, show: Show) -> Sent:
    """Send the chosen ones again, show those that the broker has, and count all others."""
    with sending(config) as outbox:
        sent = Sent(show)
        try:
            for letter in chosen:
                value = value_of(letter)
                if isinstance(value, Obstacle):
                    sent.kept[value] += 1
                    continue
                sent.under_way.append(letter)
                outbox.send(config.topics.posts, value, letter.message.key, letter.again)
                sent.tell(outbox.delivered)
            outbox.settle()
        finally:
            sent.tell(outbox.drained(GRACE_S))
            others = f"; not retried: {tallied(sent.kept)}" if sent.kept else ""
            say(f"{sent.count:,} sent again{others}")
    return sent


def unknown(name: str) -> InputError:
    """What is said of an id that no dead letter has."""
    return InputError(f"dead letter {name!r}: there is none; see newsift dead-letters list")
