"""All consumer groups of a broker, and the offsets they have committed."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from worker.broker.codes import Code, Refused
from worker.broker.group import Group
from worker.broker.members import State, Timers


@dataclass(frozen=True, slots=True)
class Committed:
    """A position that a group has committed, and what it wrote beside it."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


NOTHING = Committed(-1)


@dataclass(slots=True)
class Membership:
    """A group with its committed offsets, by topic and partition."""

    group: Group
    offsets: dict[tuple[str, int], Committed] = field(default_factory=dict)


class Groups:
    """The groups by name."""

    def __init__(self, timers: Timers, first_delay_s: float = 0) -> None:
        self._timers = timers
        self._first_delay_s = first_delay_s
        self._groups: dict[str, Membership] = {}

    def __iter__(self) -> Iterator[Membership]:
        return iter(tuple(self._groups.values()))

    def get(self, name: str) -> Membership | None:
        """The group of this name, if there is one."""
        return self._groups.get(name)

    def made(self, name: str) -> Membership:
        """The group of this name, made if it is new."""
        if not name:
            raise Refused(Code.INVALID_GROUP_ID, "a group needs a name")
        if name not in self._groups:
            self._groups[name] = Membership(Group(name, self._timers, self._first_delay_s))
        return self._groups[name]

    def existing(self, name: str) -> Group:
        """The group that a member says it is in."""
        if not name:
            raise Refused(Code.INVALID_GROUP_ID, "a group needs a name")
        found = self._groups.get(name)
        if found is None:
            raise Refused(Code.UNKNOWN_MEMBER_ID, f"there is no group {name!r}")
        return found.group

    def check_commit(self, name: str, member: str, instance: str | None, generation: int) -> None:
        """Refuse the commit of someone who is not in the group's present generation."""
        found = self._groups.get(name)
        if found is None and generation >= 0:
            raise Refused(Code.ILLEGAL_GENERATION, f"there is no group {name!r}")
        group = self.made(name).group
        if generation < 0 and not group.members:
            return  # a consumer without membership, which only keeps its offsets here
        group.heartbeat(group.known(member, instance, generation))
        if group.state is State.COMPLETING:
            raise Refused(Code.REBALANCE_IN_PROGRESS, f"group {name} is rebalancing")

    def delete(self, name: str) -> None:
        """Forget a group that nobody is in."""
        found = self._groups.get(name)
        if found is None:
            raise Refused(Code.GROUP_ID_NOT_FOUND, f"there is no group {name!r}")
        if found.group.members:
            raise Refused(Code.NON_EMPTY_GROUP, f"group {name} has members")
        del self._groups[name]

    def forget_topic(self, topic: str) -> None:
        """Forget what was committed for a topic that is gone."""
        for each in self:
            for key in [key for key in each.offsets if key[0] == topic]:
                del each.offsets[key]

    def forget_members(self) -> None:
        """Empty all groups, as when the broker stops; offsets stay."""
        for each in self:
            each.group.forget_members()
