"""The matches that are held of an event: bounded by their number and by their bytes."""

import json
from typing import cast

import pytest

from newsift.operations.labels import read_event_matches
from newsift.operations.messages import capture
from tests.newsift.desk.matched import record
from tests.worker.small import Mail
from worker.config import Config
from worker.kafka.reading import TopicReader

LARGE = 10_000


class Topic:
    """A topic of forty matches, each fourth of them large, in batches; some come twice."""

    def at(self, _topic: str, _since: int) -> dict[int, int]:
        return {0: 0}

    def read(self, _topic: str, _start: dict[int, int]) -> list[list[Mail]]:
        values = [json.dumps(record(f"{n}", 0.5, text="x" * (n % 4 == 0) * LARGE)).encode()
                  for n in range(40)]  # fmt: skip
        return [[Mail(value) for value in values[n : n + 12]] for n in range(0, 40, 10)]


@pytest.mark.parametrize(
    ("most", "room", "stored"), [(100, 2**20, 40), (7, 2**20, 7), (100, 2 * LARGE, 7)]
)
def test_the_newest_are_kept(
    monkeypatch: pytest.MonkeyPatch, most: int, room: int, stored: int
) -> None:
    monkeypatch.setattr("newsift.operations.labels.MAX_MATCHES", most)
    monkeypatch.setattr("newsift.operations.labels.MATCHES_BYTES", room)
    with capture() as output:
        result = read_event_matches(cast(TopicReader, Topic()), Config(), "ferry", 0)
    assert [name for _, name in result] == [f"{n}" for n in range(40 - stored, 40)]
    assert (output == []) == (stored == 40)
