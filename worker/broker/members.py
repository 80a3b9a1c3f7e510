"""The members of a consumer group, and what passes between them and the group."""

from asyncio import TimerHandle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from worker.broker.codes import Code


class GroupState(StrEnum):
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
    asks_for_id: bool = True  # newer clients want an id first, and join with it


@dataclass(frozen=True, slots=True)
class Joined:
    """What a consumer hears when a round of joining is over."""

    code: Code
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[tuple[str, bytes], ...] = ()  # told to the leader alone: ids and their wishes


@dataclass(frozen=True, slots=True)
class Synced:
    """What a consumer hears when its leader has assigned the partitions."""

    code: Code
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """A position that a group has committed, and what it wrote beside it."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(slots=True, eq=False)
class Member:
    """A consumer in a group."""

    id: str
    join: Join
    seen: float
    assignment: bytes = b""
    answer_join: Callable[[Joined], None] | None = None
    answer_sync: Callable[[Synced], None] | None = None
    timer: TimerHandle | None = None
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
