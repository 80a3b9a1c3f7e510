import heapq
import itertools
from collections.abc import Callable
from typing import Any, cast

import pytest

from newsift.broker.codes import Code, RequestError
from newsift.broker.groups import ConsumerGroup, Join, JoinResult

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
