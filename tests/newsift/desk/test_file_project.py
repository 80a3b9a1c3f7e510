"""A desk without Kafka: when its posts are read again, and a project that cannot be written."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from newsift.cli import desk as command
from newsift.desk import file_stream
from newsift.desk.file_stream import FileStream
from tests.broker.clients import until
from worker.config import Config
from worker.errors import OutputError


def test_an_article_that_is_removed_and_added_again_meets_all_posts_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("sending", "connected", "administering"):
        monkeypatch.setattr(file_stream, name, lambda _config: nullcontext())
    seeds = {"flood": SimpleNamespace(paused=False)}
    states: Iterator[Any] = iter(
        SimpleNamespace(seeds=own, digest=str(len(own)), offset=offset)
        for own, offset in ((seeds, 1), (seeds, 1), ({}, 2), (seeds, 3), (seeds, 3))
    )
    read: list[int] = []

    class Recorded(FileStream):
        def _publish(self, state: Any, *_others: Any) -> bool:
            read.append(state.offset)
            return True

    def control() -> Any:
        state = next(states, None)
        if state is None:
            stream.stop()
            return SimpleNamespace(seeds={}, digest="", offset=4)
        return state

    monkeypatch.setattr(file_stream, "POLL_S", 0.001)
    inputs: Any = [SimpleNamespace(name="posts.csv")]
    monkeypatch.setattr(file_stream, "share_read", lambda _inputs: lambda _at: 0.0)
    stream = Recorded(Config(), inputs, control, lambda: None)
    stream.run()
    assert read == [1, 3]


def test_a_project_that_cannot_be_written_is_tried_again_and_the_desk_stays_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "SAVE_S", 0.001)
    tries: list[int] = []

    def save(*_states: object) -> None:
        tries.append(1)
        if len(tries) < 4:
            raise OutputError("labels.jsonl: no space left on device")

    project: Any = SimpleNamespace(save=save)
    desk: Any = SimpleNamespace(mirrors=SimpleNamespace(control=None, labels=None))
    saver = command.ProjectSaver(project, desk)
    run: Callable[[], None] = saver._run
    thread = Thread(target=run)
    thread.start()
    until(lambda: len(tries) > 5)
    saver._stopped.set()
    thread.join()
    said = capsys.readouterr().err
    assert said.count("no space left") == 1
    assert "saved again" in said
