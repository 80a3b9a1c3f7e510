import asyncio
import os
from collections.abc import Sequence
from io import FileIO

import pytest
from aiohttp import ClientSession

from newsift.collect.collector import CollectorMetrics, TopicOutlet, size_of, write_lines
from newsift.collect.source import (
    BUSY,
    CLOSED,
    Arrivals,
    Backoff,
    Gap,
    LostError,
    SourceEndedError,
    SourceFrame,
    SourcePosition,
)
from tests.newsift.collect.running_collector import PATIENCE_S, collecting
from tests.worker.command_topics import POSTS, Kafka
from worker.config import Config, KafkaConfig, StreamConfig
from worker.errors import AccessError, BrokerError
from worker.posts.read import Reason, Rejected, read_post


async def test_a_full_pipe_that_does_not_block_leaves_time_to_others() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    value = b"x" * 2**18
    with FileIO(writer, "w") as out:
        writing = asyncio.create_task(write_lines(out, [SourceFrame(value, b"1")]))
        await asyncio.sleep(0)
        assert not writing.done()
        content = b""
        while len(content) <= len(value):
            content += os.read(reader, 2**16)
            await asyncio.sleep(0.02)
        await writing
    os.close(reader)
    assert content == value + b"\n"


async def test_a_frame_too_large_leaves_a_record_and_holds_up_no_other(kafka: Kafka) -> None:
    metrics = CollectorMetrics("bluesky")
    own = (("instance", b"m.example"),)
    frames = [SourceFrame(b'{"a": 1}', b"1", headers=own),
              SourceFrame(b"x" * 2**21, b"2", headers=own),
              SourceFrame(b'{"b": 2}', b"3"), SourceFrame(b"", None, 9)]  # fmt: skip

    config = Config(kafka=KafkaConfig(bootstrap_servers=str(kafka.address)))
    outlet = TopicOutlet(config, metrics)
    await outlet.delivery.start()
    await outlet.deliver(frames)
    await outlet.delivery.stop()
    records = {record.key: record for record in kafka.records(POSTS)}
    assert {key: record.value for key, record in records.items()} == {
        b"1": b'{"a": 1}', b"2": None, b"3": b'{"b": 2}',
    }  # fmt: skip
    assert (tuple(records[b"1"].headers), list(records[b"3"].headers)) == (own, [])
    assert dict(records[b"2"].headers) == {
        "instance": b"m.example", "reason": b"record_too_large",
        "detail": b"2097152 bytes, more than the topic takes",
    }  # fmt: skip
    refused = read_post(records[b"2"].value)
    assert isinstance(refused, Rejected)
    assert refused.reason is Reason.EMPTY_VALUE
    assert b'unsendable_total{source="bluesky"} 1.0' in metrics.render()


Step = Sequence[SourceFrame] | Gap | Exception


class Played:
    name, place = "bluesky", "played.test"

    def __init__(self, *connections: Sequence[Step]) -> None:
        self.script = list(connections)
        self.positions: list[SourcePosition | None] = []
        self.yielded = 0
        self.pauses = Backoff(0.001, 0.004, jitter=0)

    async def arrivals(self, session: ClientSession, position: SourcePosition | None) -> Arrivals:
        self.positions.append(position)
        for step in self.script.pop(0) if self.script else ():
            if isinstance(step, Exception):
                raise step
            self.yielded += 1
            yield step
        if not self.script:
            await asyncio.Future()

    def backoff(self, lost: LostError) -> Backoff:
        return self.pauses


def frames(*cursors: int, size: int = 10) -> list[SourceFrame]:
    return [SourceFrame(b"x" * size, str(c).encode(), c, float(c)) for c in cursors]


def cursors(positions: Sequence[SourcePosition | None]) -> list[object]:
    return [position and position.cursor for position in positions]


async def test_the_next_connection_begins_where_the_last_was_acknowledged() -> None:
    source = Played([frames(1, 2), frames(3)], [frames(3, 4), LostError(CLOSED, "gone")], [()])
    async with collecting(source) as result:
        await result.until(lambda: len(source.positions) == 3)
    assert cursors(source.positions) == [None, 3, 4]
    assert result.outlet.keys == ["1", "2", "3", "3", "4"]
    assert result.metrics.sent_count == 5
    assert result.outlet.positions[-1] == SourcePosition(4, "played.test", 4.0)


async def test_no_position_is_stored_before_it_is_acknowledged() -> None:
    source = Played([frames(1), LostError(CLOSED, "gone")], [()])
    async with collecting(source, size=StreamConfig(shutdown_s=2.1)) as result:
        result.outlet.free.clear()
        await result.until(lambda: result.counted("reconnects_total") == 1)
        await result.until(lambda: bool(result.outlet.tried))
        for _ in range(20):
            await asyncio.sleep(0.002)
        assert len(source.positions) == 1
    assert (result.outlet.positions, result.outlet.frames) == ([], [])  # it left without


async def test_leaving_waits_for_frames_in_flight() -> None:
    source = Played([frames(1, 2)])
    async with collecting(source) as result:
        result.outlet.free.clear()
        await result.until(lambda: bool(result.outlet.tried))
        result.collector.stop()
        asyncio.get_running_loop().call_later(0.05, result.outlet.free.set)
    assert result.outlet.keys == ["1", "2"]
    assert cursors(result.outlet.positions) == [2]


async def test_waits_for_the_broker_after_the_last_frame() -> None:
    source = Played([frames(1, 2), SourceEndedError()])
    async with collecting(source, size=StreamConfig(shutdown_s=2.1)) as result:
        result.outlet.free.clear()
        await result.until(lambda: bool(result.outlet.tried))
        await asyncio.sleep(0.3)  # longer than a shutdown may take
        assert not result.task.done()
        result.outlet.free.set()
        async with asyncio.timeout(PATIENCE_S):
            await result.task
    assert cursors(result.outlet.positions) == [2]


async def test_a_slow_broker_holds_the_source_up_in_bounded_memory() -> None:
    size = StreamConfig(batch_bytes=2**14, in_flight=2, batch_posts=4)
    step = frames(1, size=2**12)
    source = Played([step] * 100)
    async with collecting(source, size=size) as result:
        result.outlet.free.clear()
        await result.until(lambda: result.counted("in_flight_bytes") >= 2**15)
        for _ in range(20):
            await asyncio.sleep(0)
        assert source.yielded <= 2**15 // 2**12 + 2
        assert result.counted("in_flight_bytes") <= 2**15 + 2 * size_of(step[0])
        result.outlet.free.set()
        await result.until(lambda: len(result.outlet.frames) == 100)
        assert result.counted("in_flight_bytes") == 0


async def test_a_frame_without_a_value_only_moves_the_position() -> None:
    async with collecting(Played([[*frames(1), SourceFrame(b"", cursor=9, at=9.0)]])) as result:
        await result.until(lambda: bool(result.outlet.frames))
    assert result.outlet.keys == ["1"]
    assert result.metrics.sent_count == 1
    assert cursors(result.outlet.positions) == [9]


async def test_a_frame_without_a_time_keeps_the_last_time() -> None:
    """Without it the length of the next gap, and where another host resumes, would be unknown."""
    source = Played(
        [frames(1), [*frames(2), SourceFrame(b"x", cursor=3)], [SourceFrame(b"y", cursor=4)]]
    )
    async with collecting(source) as result:
        await result.until(lambda: len(result.outlet.frames) == 4)
    assert result.outlet.positions[-1] == SourcePosition(4, "played.test", 2.0)


class Noted(Backoff):
    """Pauses that are noted instead of waited for."""

    __slots__ = ("noted",)

    def pause(self) -> float:
        self.noted = [*getattr(self, "noted", []), super().pause()]
        return 0.0


async def test_pauses_grow_until_a_new_cursor_is_acknowledged() -> None:
    lost = LostError(CLOSED, "gone")
    source = Played([lost], [lost], [frames(5), lost], [frames(5), lost], [frames(6), lost], [()])
    source.pauses = pauses = Noted(1, 100, jitter=0)
    async with collecting(source) as result:
        await result.until(lambda: len(source.positions) == 6)
    assert pauses.noted == [1, 2, 1, 2, 1]  # 5 is news, 5 again is none, 6 is


@pytest.mark.parametrize("error", [AccessError("refused"), RuntimeError("odd")])
async def test_a_refusal_keeps_the_position(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("newsift.collect.collector.MAX_REFUSED_S", -1.0)  # it was long enough
    with pytest.raises(type(error)):
        async with collecting(Played([frames(1), error])) as result:
            await result.until(lambda: False)
    assert cursors(result.outlet.positions) == [1] * len(result.outlet.frames)


async def test_tries_again_a_host_that_refuses_after_it_accepted() -> None:
    refused = AccessError("refused")
    source = Played([frames(1), refused], [refused], [frames(2)])
    async with collecting(source) as result:
        await result.until(lambda: result.outlet.keys == ["1", "2"])
        assert result.counted("reconnects_total", reason=BUSY) == 2


async def test_a_broker_that_fails_ends_it() -> None:
    with pytest.raises(BrokerError):  # noqa: PT012
        async with collecting(Played([frames(1)])) as result:
            result.outlet.error = BrokerError("away for good")
            await result.until(lambda: False)
    assert result.outlet.positions == []
