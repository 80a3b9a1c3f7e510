"""The control topic by a command: read once, read on, and published to unless it has moved."""

import pytest

from newsift.operations.seed_topic import seed_topic
from tests.worker.kafka_side import SEEDS, Kafka
from worker.config import load_config
from worker.errors import ConflictError
from worker.kafka.reading import TopicReader

ARTICLE = b'{"text": "A ferry burns."}'


def test_it_is_read_once_and_then_read_on(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (b"a", b"b"):
        kafka.send(SEEDS, ARTICLE, name)
    starts, read = [], TopicReader.read

    def counted(reader: TopicReader, topic: str, start: dict[int, int], *more: object) -> object:
        starts.append(start[0])
        return read(reader, topic, start, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(TopicReader, "read", counted)
    with seed_topic(load_config()) as topic:
        first = topic.state()
        assert (first.offset, first.complete, sorted(first.seeds)) == (2, True, ["a", "b"])
        assert topic.state() is first
        kafka.send(SEEDS, None, b"a")
        assert list(topic.state().seeds) == ["b"]
    assert starts == [0, 2, 2]


def test_what_was_published_since_the_state_was_read_stands(kafka: Kafka) -> None:
    kafka.send(SEEDS, ARTICLE, b"a")
    with seed_topic(load_config()) as topic:
        state = topic.state()
        kafka.send(SEEDS, b'{"text": "Another ferry."}', b"other")
        topic.publish({b"a": b'{"text": "The ferry burns."}'}, state)  # of another key: no matter
        with pytest.raises(
            ConflictError, match=r"'a': .* at offset 2, .*\(offset 1, [0-9a-f]{12}\)"
        ):
            topic.publish({b"b": ARTICLE, b"a": None}, state)
        assert sorted(topic.state().seeds) == ["a", "b", "other"][::2]
        topic.publish({b"a": None}, topic.state())
        assert list(topic.state().seeds) == ["other"]
