"""All consumer groups of a broker, and the offsets they have committed."""

from collections.abc import Iterator

from worker.broker.codes import Code, Refused
from worker.broker.group import Group
from worker.broker.members import GroupState, Timers


class Groups:
    """The groups by name."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._groups: dict[str, Group] = {}

    def __iter__(self) -> Iterator[Group]:
        return iter(tuple(self._groups.values()))

    def get(self, name: str) -> Group | None:
        """The group of this name, if there is one."""
        return self._groups.get(name)

    def made(self, name: str) -> Group:
        """The group of this name, made if it is new."""
        if not name:
            raise Refused(Code.INVALID_GROUP_ID, "a group needs a name")
        if name not in self._groups:
            self._groups[name] = Group(name, self._timers)
        return self._groups[name]

    def existing(self, name: str) -> Group:
        """The group that a member says it is in."""
        if not name:
            raise Refused(Code.INVALID_GROUP_ID, "a group needs a name")
        if name not in self._groups:
            raise Refused(Code.UNKNOWN_MEMBER_ID, f"there is no group {name!r}")
        return self._groups[name]

    def check_commit(self, name: str, member: str, generation: int) -> None:
        """Refuse the commit of someone who is not in the group's present generation."""
        if name not in self._groups and generation >= 0:
            raise Refused(Code.ILLEGAL_GENERATION, f"there is no group {name!r}")
        group = self.made(name)
        if generation < 0 and not group.members:
            return  # a consumer without membership, which only keeps its offsets here
        group.heartbeat(group.known(member, generation))
        if group.state is GroupState.COMPLETING:
            raise Refused(Code.REBALANCE_IN_PROGRESS, f"group {name} is rebalancing")

    def delete(self, name: str) -> None:
        """Forget a group that nobody is in."""
        if name not in self._groups:
            raise Refused(Code.GROUP_ID_NOT_FOUND, f"there is no group {name!r}")
        if self._groups[name].members:
            raise Refused(Code.NON_EMPTY_GROUP, f"group {name} has members")
        del self._groups[name]

    def forget_topic(self, topic: str) -> None:
        """Forget what was committed for a topic that is gone."""
        for group in self:
            for key in [key for key in group.offsets if key[0] == topic]:
                del group.offsets[key]

    def forget_members(self) -> None:
        """Empty all groups, as when the broker stops; offsets stay."""
        for group in self:
            group.forget_members()
