"""A consumer group: who is in it, its generation, and the rebalance that leads to the next."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from worker.broker.codes import Code, Refused
from worker.broker.members import (
    Join,
    Joined,
    Member,
    Roster,
    State,
    Synced,
    Timer,
    Timers,
    new_member_id,
)


class Group:
    """The state machine of one group; answers are calls, so that it knows no network."""

    def __init__(self, name: str, timers: Timers, first_delay_s: float = 0) -> None:
        self.name = name
        self.state = State.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.leader = ""
        self.roster = Roster()
        self._timers = timers
        self._first_delay_s = first_delay_s
        self._is_first = False
        self._timer: Timer | None = None

    @property
    def members(self) -> list[Member]:
        """The members, in the order in which they came."""
        return list(self.roster.members.values())

    def join(self, join: Join, answer: Callable[[Joined], None]) -> None:
        """Take a consumer in, or let a member join again; the answer comes when all have."""
        if not join.protocol_type or not join.protocols:
            raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL, "a member needs a protocol")
        if self.members and join.protocol_type != self.protocol_type:
            raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL, f"group is a {self.protocol_type}")
        known = self._known_instance(join)
        if not self.roster.agrees(join, but=known.id if known else join.member_id):
            raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL, "no protocol that all members have")
        if known is not None and not join.member_id:
            self._return(known, join, answer)
        elif known is None and not join.member_id and join.asks_for_id and not join.instance:
            self._promise(join, answer)
        else:
            is_new = not join.member_id or join.member_id in self.roster.promised
            member = self._admit(join) if is_new else self.known(join.member_id, join.instance)
            self._join(member, join, answer, is_new)

    def sync(
        self, member: Member, assignments: Mapping[str, bytes], answer: Callable[[Synced], None]
    ) -> None:
        """Give a member its assignment, once the leader has brought them all."""
        member.seen = self._timers.time()
        if self.state is State.PREPARING:
            raise Refused(Code.REBALANCE_IN_PROGRESS, f"group {self.name} is rebalancing")
        member.synced(Synced(Code.REBALANCE_IN_PROGRESS))
        member.answer_sync, member.has_synced = answer, True
        if self.state is State.COMPLETING and member.id == self.leader:
            for each in self.members:
                each.assignment = assignments.get(each.id, b"")
            self.state = State.STABLE
            self._put_off(None)
        if self.state is State.STABLE:
            for each in self.members:
                each.synced(Synced(Code.NONE, each.assignment, self.protocol_type, self.protocol))

    def heartbeat(self, member: Member) -> Code:
        """Note that a member lives; the code says whether it has to join again."""
        member.seen = self._timers.time()
        rebalancing = self.state is State.PREPARING
        return Code.REBALANCE_IN_PROGRESS if rebalancing else Code.NONE

    def known(self, member_id: str, instance: str | None, generation: int | None = None) -> Member:
        """The member of this id, instance and generation; else what it is told."""
        if instance is not None and self.roster.instances.get(instance, member_id) != member_id:
            raise Refused(Code.FENCED_INSTANCE_ID, f"{instance} is another member by now")
        member = self.roster.members.get(member_id)
        if member is None:
            raise Refused(Code.UNKNOWN_MEMBER_ID, f"group {self.name} has no member {member_id!r}")
        if generation is not None and generation != self.generation:
            raise Refused(Code.ILLEGAL_GENERATION, f"generation {generation} is over")
        return member

    def leave(self, member_id: str, instance: str | None) -> None:
        """Let a member go at its own wish; by its instance alone when the id is empty."""
        if member_id in self.roster.promised:
            self._break_promise(member_id)
            return
        if instance is not None and not member_id:
            member_id = self.roster.instances.get(instance, "")
        self._remove(self.known(member_id, instance))

    def forget_members(self) -> None:
        """Stand as after a restart of the broker: nobody in it, the generation kept."""
        self.roster.clear()
        self._put_off(None)
        self.state, self.leader, self.protocol = State.EMPTY, "", None

    def _known_instance(self, join: Join) -> Member | None:
        known = self.roster.instances.get(join.instance) if join.instance else None
        if known is not None and join.member_id not in ("", known):
            raise Refused(Code.FENCED_INSTANCE_ID, f"{join.instance} is another member by now")
        return self.roster.members[known] if known is not None else None

    def _promise(self, join: Join, answer: Callable[[Joined], None]) -> None:
        """Give out an id to join with; without it, a client that retries would join twice."""
        member_id = new_member_id(join)
        self.roster.promised[member_id] = self._timers.call_later(
            join.session_s, self._break_promise, member_id
        )
        answer(Joined(Code.MEMBER_ID_REQUIRED, member_id))

    def _break_promise(self, member_id: str) -> None:
        timer = self.roster.promised.pop(member_id, None)
        if timer is not None:
            timer.cancel()
        self._complete_if_all_joined()

    def _admit(self, join: Join) -> Member:
        timer = self.roster.promised.pop(join.member_id, None)
        if timer is not None:
            timer.cancel()
        member = Member(join.member_id or new_member_id(join), join, self._timers.time())
        self.roster.add(member)
        self.protocol_type = join.protocol_type
        self._watch(member, join.session_s)
        return member

    def _return(self, old: Member, join: Join, answer: Callable[[Joined], None]) -> None:
        """Let a static member take its own place again, under a new id."""
        unchanged = dict(old.join.protocols) == dict(join.protocols)
        self.roster.remove(old)
        old.refuse(Code.FENCED_INSTANCE_ID)
        member = self._admit(join)
        member.assignment = old.assignment
        leader_before = self.leader
        if old.id == self.leader:
            self.leader = member.id
        if self.state is not State.STABLE or not unchanged:
            self._join(member, join, answer, is_new=True)
            return
        current = self._current(member)
        if member.id == self.leader and not join.may_skip:
            # Told that someone else leads, it takes its old assignment and brings no new one.
            current = replace(current, leader=leader_before, members=())
        answer(replace(current, skip_assignment=member.id == self.leader and join.may_skip))

    def _join(
        self, member: Member, join: Join, answer: Callable[[Joined], None], is_new: bool
    ) -> None:
        unchanged = not is_new and dict(member.join.protocols) == dict(join.protocols)
        member.join, member.seen = join, self._timers.time()
        settled = self.state is State.STABLE and member.id != self.leader
        if unchanged and (settled or self.state is State.COMPLETING):
            answer(self._current(member))
            return
        member.joined(Joined(Code.REBALANCE_IN_PROGRESS, member.id))
        member.answer_join = answer
        self._prepare()
        self._complete_if_all_joined()

    def _current(self, member: Member) -> Joined:
        members = tuple(
            (each.id, each.join.instance, each.join.protocols[self.protocol or ""])
            for each in (self.members if member.id == self.leader else ())
        )
        return Joined(
            Code.NONE, member.id, self.generation, self.protocol_type, self.protocol, self.leader,
            members,
        )  # fmt: skip

    def _prepare(self) -> None:
        if self.state is State.PREPARING:
            return
        for member in self.members:
            member.synced(Synced(Code.REBALANCE_IN_PROGRESS))
        self._is_first = self.state is State.EMPTY and self._first_delay_s > 0
        self.state = State.PREPARING
        self._put_off(self._complete, self._first_delay_s if self._is_first else self._patience())

    def _patience(self) -> float:
        return max((member.join.rebalance_s for member in self.members), default=0)

    def _complete_if_all_joined(self) -> None:
        is_open = self.state is State.PREPARING and not self._is_first
        all_joined = all(member.answer_join for member in self.members)
        if is_open and all_joined and not self.roster.promised:
            self._complete()

    def _complete(self) -> None:
        """End the round of joining with those who came; static members may come later."""
        self._is_first = False
        for member in self.members:
            if member.answer_join is None and member.join.instance is None:
                self.roster.remove(member)
        came = [member for member in self.members if member.answer_join]
        if self.members and not came:
            self._put_off(self._complete, self._patience())
            return
        self.generation += 1
        self._put_off(None)
        if not came:
            self.state, self.leader, self.protocol = State.EMPTY, "", None
            return
        if self.leader not in {member.id for member in came}:
            self.leader = came[0].id
        self.protocol = self.roster.vote()
        self.state = State.COMPLETING
        self._put_off(self._drop_unsynced, self._patience())
        for member in self.members:
            member.seen, member.has_synced, member.assignment = self._timers.time(), False, b""
            member.joined(self._current(member))

    def _drop_unsynced(self) -> None:
        for member in self.members:
            if not member.has_synced:
                self._remove(member)

    def _remove(self, member: Member) -> None:
        self.roster.remove(member)
        member.refuse(Code.UNKNOWN_MEMBER_ID)
        if self.state in (State.STABLE, State.COMPLETING):
            self._prepare()
        self._complete_if_all_joined()

    def _watch(self, member: Member, delay: float) -> None:
        member.timer = self._timers.call_later(delay, self._look_after, member)

    def _look_after(self, member: Member) -> None:
        """Remove a member that was silent for its session, unless an answer is owed to it."""
        session = member.join.session_s
        left = session if member.is_waiting else member.seen + session - self._timers.time()
        if left > 0:
            self._watch(member, left)
        else:
            self._remove(member)

    def _put_off(self, call: Callable[[], None] | None, delay: float = 0) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if call is None else self._timers.call_later(delay, call)
