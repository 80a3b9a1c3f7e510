"""The life of a consumer group, with a clock that the test moves."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from newsift.broker.codes import Code, RequestError
from newsift.broker.groups import ConsumerGroup, Join, JoinAnswer, SyncAnswer
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


def test_an_id_is_promised_first_and_expires(group: ConsumerGroup, clock: Clock) -> None:
    late = Consumer(group, asks_for_id=True).join()
    assert (late.last.code, bool(late.id), group.members) == (Code.MEMBER_ID_REQUIRED, True, [])
    late.join()
    assert (late.last.code, group.generation) == (Code.NONE, 1)
    gone = Consumer(group, asks_for_id=True).join()
    clock.advance(SESSION)
    assert refusal(gone.join) == Code.UNKNOWN_MEMBER_ID


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


def test_members_share_a_protocol(group: ConsumerGroup) -> None:
    (first,) = stable(group, 1)
    for protocols in ({"own": b""}, {}):
        odd = Consumer(group, protocols=protocols)
        assert refusal(odd.join) == Code.INCONSISTENT_GROUP_PROTOCOL
    Consumer(group, protocols={"sticky": b"s"}).join()
    first.join()
    assert first.last.protocol == "sticky"
