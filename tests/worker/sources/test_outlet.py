"""Where frames go: the topic takes them as they came, or a record that stands for them."""

import asyncio
import io

from tests.worker.kafka_side import POSTS, Kafka
from worker.config import Config, KafkaConfig
from worker.posts.read import Reason, Rejected, read_post
from worker.sources.counts import Counts
from worker.sources.frame import Frame
from worker.sources.outlet import PrintOutlet, TopicOutlet


def test_a_frame_too_large_leaves_a_record_that_names_it_and_keeps_nobody_waiting(
    kafka: Kafka,
) -> None:
    counts = Counts("bluesky")
    frames = [Frame(b'{"a": 1}', b"1"), Frame(b"x" * 2**21, b"2"), Frame(b'{"b": 2}', b"3"),
              Frame(b"", None, 9)]  # fmt: skip

    async def send() -> None:
        config = Config(kafka=KafkaConfig(bootstrap_servers=str(kafka.address)))
        outlet = TopicOutlet(config, counts, lambda _: None)
        await outlet.start()
        await outlet.deliver(frames)
        await outlet.stop()

    asyncio.run(send())
    records = {record.key: record for record in kafka.records(POSTS)}
    assert {key: record.value for key, record in records.items()} == {
        b"1": b'{"a": 1}', b"2": None, b"3": b'{"b": 2}',
    }  # fmt: skip
    assert dict(records[b"2"].headers) == {
        "reason": b"record_too_large", "detail": b"2097152 bytes, more than the topic takes",
    }  # fmt: skip
    refused = read_post(records[b"2"].value)
    assert isinstance(refused, Rejected)
    assert refused.reason is Reason.EMPTY_VALUE
    assert b'unsendable_total{source="bluesky"} 1.0' in counts.render()


def test_a_dry_run_prints_a_frame_on_a_line() -> None:
    stream = io.BytesIO()
    asyncio.run(PrintOutlet(stream).deliver([Frame(b'{"a":\r\n1}'), Frame(b"", cursor=1)]))
    assert stream.getvalue() == b'{"a": 1}\n'
