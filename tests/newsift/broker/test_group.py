import asyncio
from collections.abc import Iterator
from contextlib import closing

import pytest

from newsift.broker.codes import Code, RequestError
from newsift.broker.groups import ConsumerGroup, Join, JoinResult
from tests.worker.stream.ingest_bench import FastLoop

SESSION, REBALANCE = 10, 30


@pytest.fixture
def loop() -> Iterator[FastLoop]:
    with closing(FastLoop()) as loop:
        yield loop


def test_a_member_without_a_shared_protocol_is_refused(loop: FastLoop) -> None:
    group = ConsumerGroup("g", loop)

    def join(protocols: dict[str, bytes]) -> None:
        group.join(
            Join("", "test", "", SESSION, REBALANCE, "consumer", protocols, False), lambda _: None
        )

    join({"range": b""})
    for protocols in ({"own": b""}, {}):
        with pytest.raises(RequestError) as caught:
            join(protocols)
        assert caught.value.code == Code.INCONSISTENT_GROUP_PROTOCOL


def test_a_dropped_member_and_an_older_generation_are_refused(loop: FastLoop) -> None:
    joins = list[JoinResult]()
    group = ConsumerGroup("g", loop)
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
    loop.run_until_complete(asyncio.sleep(SESSION + 1))
    assert refusal(member_id, generation) == Code.UNKNOWN_MEMBER_ID
