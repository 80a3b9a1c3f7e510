"""A consumer group: who is in it, its generation, and the rebalance that leads to the next."""

import uuid
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Mapping

from worker.broker.codes import Code, Refused
from worker.broker.members import Committed, GroupState, Join, Joined, Member, Synced


class Group:
    """The state machine of one group; answers are calls, so that it knows no network.

    Static membership is not kept: an instance that comes back joins as anybody does.
    """

    def __init__(self, name: str, loop: AbstractEventLoop) -> None:
        self.name = name
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.leader = ""
        self.offsets: dict[tuple[str, int], Committed] = {}  # by topic and partition
        self._loop = loop
        self._members: dict[str, Member] = {}
        self._promised: dict[
            str, TimerHandle
        ] = {}  # ids that were given out and not yet joined with
        self._timer: TimerHandle | None = None

    @property
    def members(self) -> list[Member]:
        """The members, in the order in which they came."""
        return list(self._members.values())

    def join(self, join: Join, answer: Callable[[Joined], None]) -> None:
        """Take a consumer in, or let a member join again; the answer comes when all have."""
        if not join.protocol_type or not join.protocols:
            raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL, "a member needs a protocol")
        if self.members and join.protocol_type != self.protocol_type:
            raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL, f"group is a {self.protocol_type}")
        others = [m.join.protocols for m in self.members if m.id != join.member_id]
        if not set(join.protocols).intersection(*others):
            raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL, "no protocol that all members have")
        if not join.member_id and join.asks_for_id:
            self._promise(join, answer)
        elif not join.member_id or join.member_id in self._promised:
            self._wait(self._admit(join), answer)
        else:
            self._join_again(self.known(join.member_id), join, answer)

    def sync(
        self, member: Member, assignments: Mapping[str, bytes], answer: Callable[[Synced], None]
    ) -> None:
        """Give a member its assignment, once the leader has brought them all."""
        member.seen = self._loop.time()
        if self.state is GroupState.PREPARING:
            raise Refused(Code.REBALANCE_IN_PROGRESS, f"group {self.name} is rebalancing")
        member.synced(Synced(Code.REBALANCE_IN_PROGRESS))
        member.answer_sync, member.has_synced = answer, True
        if self.state is GroupState.COMPLETING and member.id == self.leader:
            for each in self.members:
                each.assignment = assignments.get(each.id, b"")
            self.state = GroupState.STABLE
            self._put_off(None)
        if self.state is GroupState.STABLE:
            for each in self.members:
                each.synced(Synced(Code.NONE, each.assignment, self.protocol_type, self.protocol))

    def heartbeat(self, member: Member) -> Code:
        """Note that a member lives; the code says whether it has to join again."""
        member.seen = self._loop.time()
        rebalancing = self.state is GroupState.PREPARING
        return Code.REBALANCE_IN_PROGRESS if rebalancing else Code.NONE

    def known(self, member_id: str, generation: int | None = None) -> Member:
        """The member of this id and generation; else what it is told."""
        member = self._members.get(member_id)
        if member is None:
            raise Refused(Code.UNKNOWN_MEMBER_ID, f"group {self.name} has no member {member_id!r}")
        if generation is not None and generation != self.generation:
            raise Refused(Code.ILLEGAL_GENERATION, f"generation {generation} is over")
        return member

    def leave(self, member_id: str) -> None:
        """Let a member go at its own wish."""
        if member_id in self._promised:
            self._break_promise(member_id)
        else:
            self._remove(self.known(member_id))

    def forget_members(self) -> None:
        """Stand as after a restart of the broker: nobody in it, the generation kept."""
        for timer in (*(member.timer for member in self.members), *self._promised.values()):
            if timer is not None:
                timer.cancel()
        self._members.clear()
        self._promised.clear()
        self._put_off(None)
        self.state, self.leader, self.protocol = GroupState.EMPTY, "", None

    def _promise(self, join: Join, answer: Callable[[Joined], None]) -> None:
        """Give out an id to join with; without it, a client that retries would join twice."""
        member_id = new_member_id(join)
        self._promised[member_id] = self._loop.call_later(
            join.session_s, self._break_promise, member_id
        )
        answer(Joined(Code.MEMBER_ID_REQUIRED, member_id))

    def _break_promise(self, member_id: str) -> None:
        self._promised.pop(member_id).cancel()
        self._complete_if_all_joined()

    def _admit(self, join: Join) -> Member:
        timer = self._promised.pop(join.member_id, None)
        if timer is not None:
            timer.cancel()
        member = Member(join.member_id or new_member_id(join), join, self._loop.time())
        self._members[member.id] = member
        self.protocol_type = join.protocol_type
        self._watch(member, join.session_s)
        return member

    def _join_again(self, member: Member, join: Join, answer: Callable[[Joined], None]) -> None:
        unchanged = dict(member.join.protocols) == dict(join.protocols)
        member.join, member.seen = join, self._loop.time()
        settled = self.state is GroupState.STABLE and member.id != self.leader
        if unchanged and (settled or self.state is GroupState.COMPLETING):
            answer(self._current(member))
        else:
            self._wait(member, answer)

    def _wait(self, member: Member, answer: Callable[[Joined], None]) -> None:
        """Answer a member when all have joined."""
        member.joined(Joined(Code.REBALANCE_IN_PROGRESS, member.id))
        member.answer_join = answer
        self._prepare()
        self._complete_if_all_joined()

    def _current(self, member: Member) -> Joined:
        told = self.members if member.id == self.leader else ()
        return Joined(
            Code.NONE, member.id, self.generation, self.protocol_type, self.protocol, self.leader,
            tuple((each.id, each.join.protocols[self.protocol or ""]) for each in told),
        )  # fmt: skip

    def _prepare(self) -> None:
        if self.state is not GroupState.PREPARING:
            for member in self.members:
                member.synced(Synced(Code.REBALANCE_IN_PROGRESS))
            self.state = GroupState.PREPARING
            self._put_off(self._complete)

    def _complete_if_all_joined(self) -> None:
        all_joined = all(member.answer_join for member in self.members)
        if self.state is GroupState.PREPARING and all_joined and not self._promised:
            self._complete()

    def _complete(self) -> None:
        """End the round of joining with those who came."""
        for member in self.members:
            if member.answer_join is None:
                self._drop(member)
        self.generation += 1
        if not self.members:
            self._put_off(None)
            self.state, self.leader, self.protocol = GroupState.EMPTY, "", None
            return
        if self.leader not in self._members:
            self.leader = self.members[0].id
        self.protocol = vote([member.join.protocols for member in self.members])
        self.state = GroupState.COMPLETING
        self._put_off(self._drop_unsynced)
        for member in self.members:
            member.seen, member.has_synced, member.assignment = self._loop.time(), False, b""
            member.joined(self._current(member))

    def _drop_unsynced(self) -> None:
        for member in self.members:
            if not member.has_synced:
                self._remove(member)

    def _remove(self, member: Member) -> None:
        self._drop(member)
        member.joined(Joined(Code.UNKNOWN_MEMBER_ID, member.id))
        member.synced(Synced(Code.UNKNOWN_MEMBER_ID))
        if self.state in (GroupState.STABLE, GroupState.COMPLETING):
            self._prepare()
        self._complete_if_all_joined()

    def _drop(self, member: Member) -> None:
        self._members.pop(member.id, None)
        if member.timer is not None:
            member.timer.cancel()

    def _watch(self, member: Member, delay: float) -> None:
        member.timer = self._loop.call_later(delay, self._look_after, member)

    def _look_after(self, member: Member) -> None:
        """Remove a member that was silent for its session, unless an answer is owed to it."""
        session = member.join.session_s
        left = session if member.is_waiting else member.seen + session - self._loop.time()
        if left > 0:
            self._watch(member, left)
        else:
            self._remove(member)

    def _put_off(self, call: Callable[[], None] | None) -> None:
        """Call this when the most patient member's patience is over, and nothing else before."""
        if self._timer is not None:
            self._timer.cancel()
        patience = max((member.join.rebalance_s for member in self.members), default=0)
        self._timer = None if call is None else self._loop.call_later(patience, call)


def vote(protocols: list[Mapping[str, bytes]]) -> str:
    """The protocol that most members prefer among those that all of them have."""
    common = set(protocols[0]).intersection(*protocols)
    votes = [next(name for name in names if name in common) for names in protocols]
    return max(votes, key=votes.count)


def new_member_id(join: Join) -> str:
    """An id that no other member has."""
    return f"{join.client_id or 'member'}-{uuid.uuid4()}"
