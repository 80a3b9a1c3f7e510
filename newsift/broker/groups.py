"""Consumer groups: members, generations, rebalances and committed offsets."""

import uuid
from asyncio import AbstractEventLoop, TimerHandle, get_running_loop
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from newsift.broker.codes import Code, RequestError


class GroupState(StrEnum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class Join:
    member_id: str
    client_id: str
    host: str
    session_s: float
    rebalance_s: float
    protocol_type: str
    protocols: Mapping[str, bytes]
    asks_for_id: bool = True  # newer clients first ask for an id, and then join with it
    instance_id: str | None = None  # of a static member, which keeps its partitions on a restart
    skips_assignment: bool = False  # newer clients can lead without assigning partitions


@dataclass(frozen=True, slots=True)
class JoinResult:
    code: Code
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    # Member id, instance id and metadata of each member; for the leader alone.
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class SyncResult:
    code: Code
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(slots=True, eq=False)
class Member:
    id: str
    join: Join
    active_at: float
    assignment: bytes = b""
    join_callback: Callable[[JoinResult], None] | None = None
    sync_callback: Callable[[SyncResult], None] | None = None
    timer: TimerHandle | None = None
    has_synced: bool = False

    @property
    def is_waiting(self) -> bool:
        """A member that waits for an answer has no session timeout."""
        return self.join_callback is not None or self.sync_callback is not None

    def complete_join(self, result: JoinResult) -> None:
        call, self.join_callback = self.join_callback, None
        if call is not None:
            call(result)

    def complete_sync(self, result: SyncResult) -> None:
        call, self.sync_callback = self.sync_callback, None
        if call is not None:
            call(result)


class ConsumerGroup:
    """The state machine of one group. It calls back with results and does no I/O.

    An instance that comes back as a new process takes over its member's assignment, without a
    rebalance if the group is stable. The member that it replaces is fenced.
    """

    def __init__(self, name: str, loop: AbstractEventLoop) -> None:
        self.name = name
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.leader = ""
        self.offsets: dict[tuple[str, int], CommittedOffset] = {}  # by topic and partition
        self._loop = loop
        self._members: dict[str, Member] = {}
        self._instances: dict[str, str] = {}  # member ids of static members
        # Ids that were given out and not yet joined with.
        self._reserved_ids: dict[str, TimerHandle] = {}
        self._timer: TimerHandle | None = None

    @property
    def members(self) -> list[Member]:
        return list(self._members.values())

    def join(self, join: Join, callback: Callable[[JoinResult], None]) -> None:
        """`callback` is called once all members have joined."""
        if not join.protocol_type or not join.protocols:
            raise RequestError(Code.INCONSISTENT_GROUP_PROTOCOL, "a member needs a protocol")
        if self.members and join.protocol_type != self.protocol_type:
            raise RequestError(Code.INCONSISTENT_GROUP_PROTOCOL, f"group is a {self.protocol_type}")
        others = [m.join.protocols for m in self.members if m.id != join.member_id]
        if not set(join.protocols).intersection(*others):
            raise RequestError(
                Code.INCONSISTENT_GROUP_PROTOCOL, "no protocol that all members have"
            )
        if not join.member_id and join.instance_id in self._instances:
            self._replace_instance(self._members[self._instances[join.instance_id]], join, callback)
        elif not join.member_id and join.asks_for_id and join.instance_id is None:
            self._reserve_id(join, callback)
        elif not join.member_id or join.member_id in self._reserved_ids:
            self._wait(self._admit(join), callback)
        else:
            member = self.require_member(join.member_id, instance_id=join.instance_id)
            self._rejoin(member, join, callback)

    def sync(
        self,
        member: Member,
        assignments: Mapping[str, bytes],
        callback: Callable[[SyncResult], None],
    ) -> None:
        """`callback` is called once the leader has sent the assignments."""
        member.active_at = self._loop.time()
        if self.state is GroupState.PREPARING:
            raise RequestError(Code.REBALANCE_IN_PROGRESS, f"group {self.name} is rebalancing")
        member.complete_sync(SyncResult(Code.REBALANCE_IN_PROGRESS))
        member.sync_callback, member.has_synced = callback, True
        if self.state is GroupState.COMPLETING and member.id == self.leader:
            for other in self.members:
                other.assignment = assignments.get(other.id, b"")
            self.state = GroupState.STABLE
            self._set_timer(None)
        if self.state is GroupState.STABLE:
            for other in self.members:
                other.complete_sync(
                    SyncResult(Code.NONE, other.assignment, self.protocol_type, self.protocol)
                )

    def heartbeat(self, member: Member) -> Code:
        """REBALANCE_IN_PROGRESS makes the member join again."""
        member.active_at = self._loop.time()
        is_rebalancing = self.state is GroupState.PREPARING
        return Code.REBALANCE_IN_PROGRESS if is_rebalancing else Code.NONE

    def require_member(
        self, member_id: str, generation: int | None = None, instance_id: str | None = None
    ) -> Member:
        """Raises RequestError for an unknown or fenced member or an old generation."""
        member = self._members.get(member_id)
        if instance_id is not None and self._instances.get(instance_id, member_id) != member_id:
            raise RequestError(
                Code.FENCED_INSTANCE_ID, f"another process is instance {instance_id} now"
            )
        if member is None or (instance_id is not None and instance_id not in self._instances):
            raise RequestError(
                Code.UNKNOWN_MEMBER_ID, f"group {self.name} has no member {member_id!r}"
            )
        if generation is not None and generation != self.generation:
            raise RequestError(Code.ILLEGAL_GENERATION, f"generation {generation} is over")
        return member

    def leave(self, member_id: str, instance_id: str | None = None) -> None:
        """An administrator removes an instance by its id, with an empty member id."""
        if member_id in self._reserved_ids:
            self._release_id(member_id)
        else:
            if not member_id and instance_id is not None:
                member_id = self._instances.get(instance_id, "")
            self._remove(self.require_member(member_id, instance_id=instance_id))

    def forget_members(self) -> None:
        """The group is then empty, as after a restart of the broker; its generation stays."""
        for timer in (*(member.timer for member in self.members), *self._reserved_ids.values()):
            if timer is not None:
                timer.cancel()
        self._members.clear()
        self._instances.clear()
        self._reserved_ids.clear()
        self._set_timer(None)
        self.state, self.leader, self.protocol = GroupState.EMPTY, "", None

    def _reserve_id(self, join: Join, callback: Callable[[JoinResult], None]) -> None:
        """Give out an id to join with. Without it, a client that retries would join twice."""
        member_id = new_member_id(join)
        self._reserved_ids[member_id] = self._loop.call_later(
            join.session_s, self._release_id, member_id
        )
        callback(JoinResult(Code.MEMBER_ID_REQUIRED, member_id))

    def _release_id(self, member_id: str) -> None:
        self._reserved_ids.pop(member_id).cancel()
        self._complete_if_all_joined()

    def _admit(self, join: Join) -> Member:
        timer = self._reserved_ids.pop(join.member_id, None)
        if timer is not None:
            timer.cancel()
        member = Member(join.member_id or new_member_id(join), join, self._loop.time())
        self._members[member.id] = member
        if join.instance_id is not None:
            self._instances[join.instance_id] = member.id
        self.protocol_type = join.protocol_type
        self._watch(member, join.session_s)
        return member

    def _rejoin(self, member: Member, join: Join, callback: Callable[[JoinResult], None]) -> None:
        is_unchanged = dict(member.join.protocols) == dict(join.protocols)
        member.join, member.active_at = join, self._loop.time()
        is_stable = self.state is GroupState.STABLE and member.id != self.leader
        if is_unchanged and (is_stable or self.state is GroupState.COMPLETING):
            callback(self._result(member))
        else:
            self._wait(member, callback)

    def _replace_instance(
        self, former: Member, join: Join, callback: Callable[[JoinResult], None]
    ) -> None:
        leader = self.leader
        self._drop(former)
        former.complete_join(JoinResult(Code.FENCED_INSTANCE_ID, former.id))
        former.complete_sync(SyncResult(Code.FENCED_INSTANCE_ID))
        member = self._admit(join)
        member.assignment, member.has_synced = former.assignment, former.has_synced
        if leader == former.id:
            self.leader = member.id
        protocols = [other.join.protocols for other in self.members]
        if self.state is not GroupState.STABLE or choose_protocol(protocols) != self.protocol:
            self._wait(member, callback)
        elif join.skips_assignment:
            is_leader = self.leader == member.id
            callback(replace(self._result(member), skip_assignment=is_leader))
        else:  # with the former leader's id the client acts as a follower
            callback(replace(self._result(member), leader=leader, members=()))

    def _wait(self, member: Member, callback: Callable[[JoinResult], None]) -> None:
        member.complete_join(JoinResult(Code.REBALANCE_IN_PROGRESS, member.id))
        member.join_callback = callback
        self._start_rebalance()
        self._complete_if_all_joined()

    def _result(self, member: Member) -> JoinResult:
        visible = self.members if member.id == self.leader else ()
        return JoinResult(
            Code.NONE, member.id, self.generation, self.protocol_type, self.protocol, self.leader,
            tuple(
                (other.id, other.join.instance_id, other.join.protocols[self.protocol or ""])
                for other in visible
            ),
        )  # fmt: skip

    def _start_rebalance(self) -> None:
        if self.state is not GroupState.PREPARING:
            for member in self.members:
                member.complete_sync(SyncResult(Code.REBALANCE_IN_PROGRESS))
            self.state = GroupState.PREPARING
            self._set_timer(self._complete_join_phase)

    def _complete_if_all_joined(self) -> None:
        all_joined = all(member.join_callback for member in self.members)
        if self.state is GroupState.PREPARING and all_joined and not self._reserved_ids:
            self._complete_join_phase()

    def _complete_join_phase(self) -> None:
        """Go on with the members that have joined, and the static ones."""
        for member in self.members:
            if member.join_callback is None and member.join.instance_id is None:
                self._drop(member)
        present = [member.id for member in self.members if member.join_callback is not None]
        if self.members and not present:
            self._set_timer(self._complete_join_phase)
            return
        self.generation += 1
        if not self.members:
            self._set_timer(None)
            self.state, self.leader, self.protocol = GroupState.EMPTY, "", None
            return
        if self.leader not in present:
            self.leader = present[0]
        self.protocol = choose_protocol([member.join.protocols for member in self.members])
        self.state = GroupState.COMPLETING
        self._set_timer(self._drop_unsynced)
        for member in self.members:
            member.active_at, member.has_synced, member.assignment = self._loop.time(), False, b""
            member.complete_join(self._result(member))

    def _drop_unsynced(self) -> None:
        for member in self.members:
            if not member.has_synced:
                self._remove(member)

    def _remove(self, member: Member) -> None:
        self._drop(member)
        member.complete_join(JoinResult(Code.UNKNOWN_MEMBER_ID, member.id))
        member.complete_sync(SyncResult(Code.UNKNOWN_MEMBER_ID))
        if self.state in (GroupState.STABLE, GroupState.COMPLETING):
            self._start_rebalance()
        self._complete_if_all_joined()

    def _drop(self, member: Member) -> None:
        """Remove a member without an answer to it, and without a rebalance."""
        self._members.pop(member.id, None)
        instance = member.join.instance_id
        if instance is not None and self._instances.get(instance) == member.id:
            del self._instances[instance]
        if member.timer is not None:
            member.timer.cancel()

    def _watch(self, member: Member, delay: float) -> None:
        member.timer = self._loop.call_later(delay, self._check_session, member)

    def _check_session(self, member: Member) -> None:
        session = member.join.session_s
        left = session if member.is_waiting else member.active_at + session - self._loop.time()
        if left > 0:
            self._watch(member, left)
        else:
            self._remove(member)

    def _set_timer(self, callback: Callable[[], None] | None) -> None:
        """Call `callback` after the longest rebalance timeout, instead of the previous one."""
        if self._timer is not None:
            self._timer.cancel()
        timeout = max((member.join.rebalance_s for member in self.members), default=0)
        self._timer = None if callback is None else self._loop.call_later(timeout, callback)


def choose_protocol(protocols: list[Mapping[str, bytes]]) -> str:
    """The protocol that most members prefer among those that all support."""
    common = set(protocols[0]).intersection(*protocols)
    votes = [next(name for name in names if name in common) for names in protocols]
    return max(votes, key=votes.count)


def new_member_id(join: Join) -> str:
    return f"{join.instance_id or join.client_id or 'member'}-{uuid.uuid4()}"


class Groups(dict[str, ConsumerGroup]):
    def get_or_create(self, name: str) -> ConsumerGroup:
        if not name:
            raise RequestError(Code.INVALID_GROUP_ID, "a group needs a name")
        if name not in self:
            self[name] = ConsumerGroup(name, get_running_loop())
        return self[name]

    def require(self, name: str, code: Code = Code.UNKNOWN_MEMBER_ID) -> ConsumerGroup:
        if name not in self:
            raise RequestError(
                code if name else Code.INVALID_GROUP_ID, f"there is no group {name!r}"
            )
        return self[name]

    def check_commit(
        self, name: str, member: str, generation: int, instance_id: str | None
    ) -> None:
        """Raises RequestError unless a member of the current generation commits."""
        group = (
            self.require(name, Code.ILLEGAL_GENERATION)
            if generation >= 0
            else self.get_or_create(name)
        )
        if generation < 0 and not group.members:
            return  # a consumer that is not a member, and only stores its offsets
        group.heartbeat(group.require_member(member, generation, instance_id))
        if group.state is GroupState.COMPLETING:
            raise RequestError(Code.REBALANCE_IN_PROGRESS, f"group {name} is rebalancing")

    def delete(self, name: str) -> None:
        if self.require(name, Code.GROUP_ID_NOT_FOUND).members:
            raise RequestError(Code.NON_EMPTY_GROUP, f"group {name} has members")
        del self[name]

    def forget_topic(self, topic: str) -> None:
        for group in self.values():
            for key in [key for key in group.offsets if key[0] == topic]:
                del group.offsets[key]

    def forget_members(self) -> None:
        """Offsets stay."""
        for group in self.values():
            group.forget_members()
