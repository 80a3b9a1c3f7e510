"""The members of a consumer group, and what passes between them and the group."""

import itertools
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from worker.broker.codes import Code


class Timer(Protocol):
    """Something that was put off and can be called off."""

    def cancel(self) -> None:
        """Call it off."""


class Timers(Protocol):
    """A clock that can put things off; an asyncio event loop is one."""

    def time(self) -> float:
        """Seconds on a clock that never goes back."""

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> Timer:
        """Call this in so many seconds."""


class State(StrEnum):
    """The states of a group, by Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class Join:
    """A consumer's wish to be in a group, or to stay in it."""

    member_id: str
    client_id: str
    host: str
    session_s: float
    rebalance_s: float
    protocol_type: str
    protocols: Mapping[str, bytes]
    instance: str | None = None
    asks_for_id: bool = True  # newer clients want an id first, and join with it
    may_skip: bool = False  # a leader that can be told to assign nothing


@dataclass(frozen=True, slots=True)
class Joined:
    """What a consumer hears when a round of joining is over."""

    code: Code
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class Synced:
    """What a consumer hears when its leader has assigned the partitions."""

    code: Code
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


@dataclass(slots=True, eq=False)
class Member:
    """A consumer in a group."""

    id: str
    join: Join
    seen: float
    assignment: bytes = b""
    answer_join: Callable[[Joined], None] | None = None
    answer_sync: Callable[[Synced], None] | None = None
    timer: Timer | None = None
    has_synced: bool = False

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is owed to it, so that its silence means nothing."""
        return self.answer_join is not None or self.answer_sync is not None

    def joined(self, answer: Joined) -> None:
        """Answer its join, if it waits for that."""
        call, self.answer_join = self.answer_join, None
        if call is not None:
            call(answer)

    def synced(self, answer: Synced) -> None:
        """Answer its sync, if it waits for that."""
        call, self.answer_sync = self.answer_sync, None
        if call is not None:
            call(answer)

    def refuse(self, code: Code) -> None:
        """Answer whatever it waits for with an error."""
        self.joined(Joined(code, self.id))
        self.synced(Synced(code))


@dataclass(slots=True)
class Roster:
    """The members by id and, if they have one, by instance; and the ids not yet joined with."""

    members: dict[str, Member] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    promised: dict[str, Timer] = field(default_factory=dict)

    def add(self, member: Member) -> None:
        """Take a member in."""
        self.members[member.id] = member
        if member.join.instance is not None:
            self.instances[member.join.instance] = member.id

    def remove(self, member: Member) -> None:
        """Let a member go."""
        self.members.pop(member.id, None)
        if self.instances.get(member.join.instance or "") == member.id:
            self.instances.pop(member.join.instance or "")
        if member.timer is not None:
            member.timer.cancel()

    def clear(self) -> None:
        """Let everyone go, without a word."""
        timers = (member.timer for member in self.members.values())
        for timer in itertools.chain(timers, self.promised.values()):
            if timer is not None:
                timer.cancel()
        self.members.clear()
        self.instances.clear()
        self.promised.clear()

    def vote(self) -> str:
        """The protocol that most members prefer among those that all of them have."""
        protocols = [member.join.protocols for member in self.members.values()]
        common = set.intersection(*(set(names) for names in protocols))
        votes = [next(name for name in names if name in common) for names in protocols]
        return max(votes, key=votes.count)

    def agrees(self, join: Join, but: str = "") -> bool:
        """Whether all members but one share a protocol with this newcomer."""
        others = [m.join.protocols for m in self.members.values() if m.id != but]
        return bool(set(join.protocols).intersection(*(set(names) for names in others)))


def new_member_id(join: Join) -> str:
    """An id that no other member has."""
    return f"{join.instance or join.client_id or 'member'}-{uuid.uuid4()}"
