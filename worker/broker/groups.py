"""All consumer groups of a broker, and the offsets they have committed."""

from asyncio import get_running_loop

from worker.broker.codes import Code, Refused
from worker.broker.group import Group
from worker.broker.members import GroupState


class Groups(dict[str, Group]):
    """The groups by name."""

    def made(self, name: str) -> Group:
        """The group of this name, made if it is new."""
        if not name:
            raise Refused(Code.INVALID_GROUP_ID, "a group needs a name")
        if name not in self:
            self[name] = Group(name, get_running_loop())
        return self[name]

    def existing(self, name: str, code: Code = Code.UNKNOWN_MEMBER_ID) -> Group:
        """The group of this name; without one, a refusal with this code."""
        if name not in self:
            raise Refused(code if name else Code.INVALID_GROUP_ID, f"there is no group {name!r}")
        return self[name]

    def check_commit(self, name: str, member: str, generation: int) -> None:
        """Refuse the commit of someone who is not in the group's present generation."""
        group = self.existing(name, Code.ILLEGAL_GENERATION) if generation >= 0 else self.made(name)
        if generation < 0 and not group.members:
            return  # a consumer without membership, which only keeps its offsets here
        group.heartbeat(group.known(member, generation))
        if group.state is GroupState.COMPLETING:
            raise Refused(Code.REBALANCE_IN_PROGRESS, f"group {name} is rebalancing")

    def delete(self, name: str) -> None:
        """Forget a group that nobody is in."""
        if self.existing(name, Code.GROUP_ID_NOT_FOUND).members:
            raise Refused(Code.NON_EMPTY_GROUP, f"group {name} has members")
        del self[name]

    def forget_topic(self, topic: str) -> None:
        """Forget what was committed for a topic that is gone."""
        for group in self.values():
            for key in [key for key in group.offsets if key[0] == topic]:
                del group.offsets[key]

    def forget_members(self) -> None:
        """Empty all groups, as when the broker stops; offsets stay."""
        for group in self.values():
            group.forget_members()
