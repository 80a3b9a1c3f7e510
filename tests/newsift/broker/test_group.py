"""The life of a consumer group, with a clock that the test moves."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from newsift.broker.codes import Code, RequestError
from newsift.broker.groups import ConsumerGroup, GroupState, Join, JoinAnswer, SyncAnswer
from tests.newsift.broker.clock import Clock

SESSION, REBALANCE = 10.0, 60.0


@dataclass
class Consumer:
    group: ConsumerGroup
    id: str = ""
    protocols: dict[str, bytes] = field(default_factory=lambda: {"range": b"", "sticky": b""})
    asks_for_id: bool = False
    joins: list[JoinAnswer] = field(default_factory=list)
    syncs: list[SyncAnswer] = field(default_factory=list)

    def join(self) -> "Consumer":
        self.group.join(
            Join(
                self.id, "test", "/127.0.0.1", SESSION, REBALANCE, "consumer", self.protocols,
                self.asks_for_id,
            ),
            self._note,
        )  # fmt: skip
        return self

    def _note(self, answer: JoinAnswer) -> None:
        self.joins.append(answer)
        self.id = answer.member_id

    def sync(self, given: dict[str, bytes] | None = None, generation: int | None = None) -> None:
        at = self.joins[-1].generation if generation is None else generation
        member = self.group.member_of(self.id, at)
        self.group.sync(member, given or {}, self.syncs.append)

    def beat(self) -> Code:
        generation = self.joins[-1].generation
        return self.group.heartbeat(self.group.member_of(self.id, generation))

    @property
    def last(self) -> JoinAnswer:
        return self.joins[-1]


def refusal(call: Callable[[], object]) -> Code:
    with pytest.raises(RequestError) as caught:
        call()
    return caught.value.code


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def group(clock: Clock) -> ConsumerGroup:
    return ConsumerGroup("g", cast(Any, clock))


def stable(group: ConsumerGroup, count: int = 2) -> list[Consumer]:
    consumers: list[Consumer] = []
    for _ in range(count):
        consumers.append(Consumer(group).join())
        for each in consumers[:-1]:
            each.join()
    settle(consumers)
    return consumers


def settle(consumers: list[Consumer]) -> None:
    for each in consumers:
        each.sync({other.id: other.id.encode() for other in consumers})


def test_one_consumer_leads_its_own_group(group: ConsumerGroup) -> None:
    alone = Consumer(group).join()
    assert (alone.last.code, alone.last.generation, alone.last.leader) == (0, 1, alone.id)
    assert [member for member, _ in alone.last.members] == [alone.id]
    assert group.state.value == "CompletingRebalance"
    alone.sync({alone.id: b"all"})
    assert alone.syncs == [SyncAnswer(Code.NONE, b"all", "consumer", "range")]
    assert group.state is GroupState.STABLE


def test_an_id_is_promised_first_and_expires(group: ConsumerGroup, clock: Clock) -> None:
    late = Consumer(group, asks_for_id=True).join()
    assert (late.last.code, bool(late.id), group.members) == (Code.MEMBER_ID_REQUIRED, True, [])
    late.join()
    assert (late.last.code, group.generation) == (Code.NONE, 1)
    gone = Consumer(group, asks_for_id=True).join()
    clock.advance(SESSION)
    assert refusal(gone.join) == Code.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_a_member_with_a_promised_id(
    group: ConsumerGroup, clock: Clock
) -> None:
    (first,) = stable(group, 1)
    Consumer(group, asks_for_id=True).join()
    first.join()
    assert first.last.generation == 1
    clock.advance(SESSION)
    assert first.last.generation == 2


def test_a_leader_that_never_assigns_is_dropped(group: ConsumerGroup, clock: Clock) -> None:
    first, second = stable(group)
    third = Consumer(group).join()
    first.join()
    second.join()
    second.sync()
    third.sync()
    for _ in range(int(REBALANCE / SESSION) * 2):
        clock.advance(SESSION / 2)
        if first.id in {member.id for member in group.members}:
            first.beat()
    assert second.syncs[-1].code == third.syncs[-1].code == Code.REBALANCE_IN_PROGRESS
    assert first.id not in {member.id for member in group.members}


def test_protocols_must_be_shared(group: ConsumerGroup) -> None:
    stable(group, 1)
    odd = Consumer(group, protocols={"own": b""})
    assert refusal(odd.join) == Code.INCONSISTENT_GROUP_PROTOCOL
    assert refusal(Consumer(group, protocols={}).join) == Code.INCONSISTENT_GROUP_PROTOCOL
    narrow = Consumer(group, protocols={"sticky": b""}).join()
    assert group.state is GroupState.PREPARING
    assert narrow.joins == []


def test_the_protocol_is_one_that_all_have(group: ConsumerGroup) -> None:
    (first,) = stable(group, 1)
    Consumer(group, protocols={"sticky": b"s"}).join()
    first.join()
    assert first.last.protocol == "sticky"


def test_members_have_to_join_again_after_a_restart(group: ConsumerGroup, clock: Clock) -> None:
    first, second = stable(group)
    group.forget_members()
    assert refusal(first.beat) == Code.UNKNOWN_MEMBER_ID
    clock.advance(10 * REBALANCE)
    first.id = ""
    first.join()
    assert first.last.generation == 3
    assert second.last.generation == 2
