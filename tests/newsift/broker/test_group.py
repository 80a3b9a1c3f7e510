import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from newsift.broker.codes import Code, RequestError
from newsift.broker.groups import ConsumerGroup, GroupState, Join, JoinResult, SyncResult

SESSION, REBALANCE = 10, 30


class Put:
    def __init__(self) -> None:
        self.is_off = False

    def cancel(self) -> None:
        self.is_off = True


class Clock:
    """Time and timers of an event loop, without the waiting."""

    def __init__(self) -> None:
        self.now = 0.0
        self._order = itertools.count()
        self._due: list[tuple[float, int, Put, Callable[[], Any]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> Put:
        put = Put()
        entry = (self.now + delay, next(self._order), put, lambda: callback(*args))
        heapq.heappush(self._due, entry)
        return put

    def advance(self, seconds: float) -> None:
        until = self.now + seconds
        while self._due and self._due[0][0] <= until:
            self.now, _, put, call = heapq.heappop(self._due)
            if not put.is_off:
                call()
        self.now = until


LONG_S = 160


def test_a_member_without_a_shared_protocol_is_refused() -> None:
    group = ConsumerGroup("g", cast(Any, Clock()))

    def join(protocols: dict[str, bytes]) -> None:
        group.join(
            Join("", "test", "", SESSION, REBALANCE, "consumer", protocols, False), lambda _: None
        )

    join({"range": b""})
    for protocols in ({"own": b""}, {}):
        with pytest.raises(RequestError) as caught:
            join(protocols)
        assert caught.value.code == Code.INCONSISTENT_GROUP_PROTOCOL


def test_a_dropped_member_and_an_older_generation_are_refused() -> None:
    clock, joins = Clock(), list[JoinResult]()
    group = ConsumerGroup("g", cast(Any, clock))
    wish = Join("", "test", "", SESSION, REBALANCE, "consumer", {"range": b""}, False)
    group.join(wish, joins.append)
    member_id, generation = joins[0].member_id, joins[0].generation
    group.sync(group.require_member(member_id, generation), {}, lambda _: None)

    def refusal(name: str, number: int) -> Code:
        with pytest.raises(RequestError) as caught:
            group.require_member(name, number)
        return caught.value.code

    assert refusal(member_id, generation - 1) == Code.ILLEGAL_GENERATION
    assert refusal("nobody", generation) == Code.UNKNOWN_MEMBER_ID
    clock.advance(SESSION + 1)
    assert refusal(member_id, generation) == Code.UNKNOWN_MEMBER_ID


@dataclass(eq=False)
class Walker:
    """A consumer that follows the protocol a step at a time, and may stop at any."""

    group: ConsumerGroup
    asks_for_id: bool
    instance: str | None = None
    id: str = ""
    joined: JoinResult | None = None
    assignment: bytes | None = None
    is_waiting: bool = False
    is_alive: bool = True

    def step(self) -> None:
        if self.is_waiting:
            return
        try:
            if self.joined is None:
                self._join()
            elif self.assignment is None:
                self._sync(self.joined)
            elif self.group.heartbeat(self._member(self.joined)) != Code.NONE:
                self._again()
        except RequestError as refused:
            self._again(refused.code)

    def leave(self) -> None:
        self.is_alive = False
        if self.joined is not None:
            try:
                self.group.leave(self.id, self.instance)
            except RequestError as refused:
                assert refused.code in (Code.UNKNOWN_MEMBER_ID, Code.FENCED_INSTANCE_ID)  # noqa: PT017

    def _join(self) -> None:
        self.is_waiting = True
        wish = Join(
            self.id, "walker", "", SESSION, REBALANCE, "consumer", {"range": b""},
            self.asks_for_id, self.instance,
        )  # fmt: skip
        try:
            self.group.join(wish, self._note)
        except RequestError:
            self.is_waiting = False
            raise

    def _note(self, answer: JoinResult) -> None:
        self.is_waiting = False
        self.id = answer.member_id
        if answer.code == Code.NONE:
            self.joined = answer
        else:
            self._again(answer.code)

    def _sync(self, joined: JoinResult) -> None:
        given = {member: (name or member).encode() for member, name, _ in joined.members}
        member = self._member(joined)
        self.is_waiting = True
        try:
            self.group.sync(member, given, self._assigned)
        except RequestError:
            self.is_waiting = False
            raise

    def _assigned(self, answer: SyncResult) -> None:
        self.is_waiting = False
        if answer.code == Code.NONE:
            self.assignment = answer.assignment
        else:
            self._again(answer.code)

    def _again(self, code: Code = Code.NONE) -> None:
        self.joined = self.assignment = None
        if code == Code.UNKNOWN_MEMBER_ID:
            self.id = ""
        if code == Code.FENCED_INSTANCE_ID:
            self.is_alive = False

    def _member(self, joined: JoinResult):  # type: ignore[no-untyped-def]
        return self.group.require_member(self.id, joined.generation, self.instance)


KINDS = ["old", "asks for an id", "static"]


class GroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.group = ConsumerGroup("g", cast(Any, self.clock))
        self.walkers: list[Walker] = []
        self.generation = 0

    @property
    def alive(self) -> list[Walker]:
        return [walker for walker in self.walkers if walker.is_alive]

    @initialize(kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    def begin(self, kinds: list[str]) -> None:
        for kind in kinds:
            self.come(kind)
        self.live(5)

    @precondition(lambda self: len(self.alive) < 5)
    @rule(kind=st.sampled_from(KINDS))
    def come(self, kind: str) -> None:
        instance = f"i{len(self.walkers)}" if kind == "static" else None
        self.walkers.append(Walker(self.group, kind != "old", instance))

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), steps=st.integers(1, 4))
    def go_on(self, data: st.DataObject, steps: int) -> None:
        walker = data.draw(st.sampled_from(self.alive))
        for _ in range(steps):
            walker.step()

    @rule(seconds=st.integers(1, LONG_S))
    def live(self, seconds: int) -> None:
        for _ in range(seconds):
            for walker in self.alive:
                walker.step()
            self.clock.advance(1)

    @precondition(lambda self: len(self.alive) > 1)
    @rule(data=st.data(), how=st.sampled_from(["leave", "die", "restart"]))
    def stop(self, data: st.DataObject, how: str) -> None:
        walker = data.draw(st.sampled_from(self.alive))
        if how == "leave":
            walker.leave()
        walker.is_alive = False
        if how == "restart":
            self.walkers.append(Walker(self.group, walker.asks_for_id, walker.instance))

    @precondition(lambda self: any(walker.instance for walker in self.alive))
    @rule(data=st.data())
    def come_twice(self, data: st.DataObject) -> None:
        """A second process takes the instance's name; the first one is fenced."""
        walker = data.draw(st.sampled_from([each for each in self.alive if each.instance]))
        self.walkers.append(Walker(self.group, walker.asks_for_id, walker.instance))
        self.walkers[-1].step()

    @rule(seconds=st.integers(1, SESSION))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @invariant()
    def is_in_order(self) -> None:
        members = {member.id for member in self.group.members}
        assert self.group.generation >= self.generation
        self.generation = self.group.generation
        if self.group.state is GroupState.EMPTY:
            assert not members
        if self.group.state in (GroupState.STABLE, GroupState.COMPLETING):
            assert self.group.leader in members
            assert not any(member.join_callback for member in self.group.members)
        if self.group.state is GroupState.STABLE:
            assert not any(member.sync_callback for member in self.group.members)

    def teardown(self) -> None:
        self.live(LONG_S)
        for walker in self.alive:
            walker.step()
        assert {member.id for member in self.group.members} == {each.id for each in self.alive}
        assert self.group.state is (GroupState.STABLE if self.alive else GroupState.EMPTY)
        for walker in self.alive:
            assert walker.joined is not None
            assert walker.joined.generation == self.group.generation
            assert walker.assignment == (walker.instance or walker.id).encode()


GroupMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
TestGroupWalk = GroupMachine.TestCase
