"""An event's labels out of their topic: those that cannot be used are told of, not missing."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from newsift.operations.labels import read_event_labels
from newsift.statistics.labels import Label
from worker.config import Config
from worker.posts.outcome import Post

GIVEN = Label("on", "fire", Post("1", "x", "smoke"), "ann", "2026-11-20T10:00:00Z", "given")


class OneTopic:
    """A cluster that has this topic, with these records, or no topic of labels at all."""

    def __init__(self, *records: tuple[bytes, bytes | None], exists: bool = True) -> None:
        self._records = [
            SimpleNamespace(key=key, value=value, partition=0, offset=at, timestamp=0)
            for at, (key, value) in enumerate(records)
        ]
        self._exists = exists

    def exists(self, topic: str) -> bool:
        return self._exists

    def beginnings(self, topic: str) -> dict[int, int]:
        return {0: 0}

    def ends(self, topic: str) -> dict[int, int]:
        assert self._exists
        return {0: len(self._records)}

    def unreadable(self, topic: str) -> int:
        return 0

    def read(self, topic: str, *_: object) -> Iterator[list[SimpleNamespace]]:
        yield self._records


def test_one_that_is_refused_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = OneTopic((GIVEN.key, GIVEN.value), (b"broken", b"{"))
    assert read_event_labels(cluster, Config(), "fire") == (GIVEN,)  # type: ignore[arg-type]
    assert "refused: broken: value: " in capsys.readouterr().err


def test_where_there_is_no_topic_there_are_none() -> None:
    assert read_event_labels(OneTopic(exists=False), Config(), "fire") == ()  # type: ignore[arg-type]
