from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from newsift.cli import desk as command
from newsift.desk import file_stream
from newsift.desk.file_stream import FileStream, PostFiles
from newsift.desk.period import FilePass
from newsift.desk.project import open_project
from newsift.files.records import read_records
from newsift.files.tables import FileOptions
from newsift.operations.times import now_ms
from newsift.statistics.labels import LabelReducer, Note
from tests.broker.clients import until
from worker.config import Config
from worker.errors import OutputError, RunError
from worker.posts.outcome import Reason, Rejected
from worker.posts.times import DAY_MS
from worker.seeds.state import ControlRecord, ControlReducer


def test_an_article_that_is_removed_and_added_again_meets_all_posts_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("sending", "connected", "admin_client"):
        monkeypatch.setattr(file_stream, name, lambda _config: nullcontext())
    seeds = {"flood": SimpleNamespace(paused=False)}
    states: Iterator[Any] = iter(
        SimpleNamespace(seeds=own, digest=str(len(own)), offset=offset)
        for own, offset in ((seeds, 1), (seeds, 1), ({}, 2), (seeds, 3), (seeds, 3))
    )
    read: list[int] = []
    end = Event()

    inputs: Any = [SimpleNamespace(name="posts.csv")]
    files = PostFiles(inputs)
    period = files.period

    class Recorded(FileStream):
        def _begin(self, state: Any, _cluster: Any, done: bool) -> None:
            period.latest = FilePass(version=1, control_offset=state.offset, done=done)

        def _wait_for_worker(self, *_others: Any) -> bool:
            return True

        def _publish(self, *_others: Any) -> None:
            read.append(period.latest.control_offset)
            period.latest = msgspec.structs.replace(period.latest, done=True)

    def control() -> Any:
        state = next(states, None)
        if state is None:
            end.set()
            return SimpleNamespace(seeds={}, digest="", offset=4)
        return state

    monkeypatch.setattr(file_stream, "POLL_S", 0.001)
    monkeypatch.setattr(file_stream, "share_read", lambda _inputs: lambda _at: 0.0)
    stream = Recorded(Config(), files, control, lambda: None)
    stream.run(end)
    assert read == [1, 3]


def test_rows_that_cannot_be_read_are_reported_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """However long the file takes, and however often it is read."""

    class File(list[Any]):
        name = "posts.csv"

    bad = SimpleNamespace(reading=Rejected(Reason.BAD_JSON, "it is cut off"))
    monkeypatch.setattr(file_stream, "share_read", lambda _inputs: lambda _at: 0.5)
    monkeypatch.setattr(file_stream, "REPORT_S", -1.0)
    state: Any = SimpleNamespace(offset=1)
    inputs: Any = [File([[bad, bad]])]
    files = PostFiles(inputs)
    files.period.latest = FilePass(version=1, control_offset=1)
    stream = FileStream(Config(), files, lambda: state, lambda: None)
    outbox: Any = SimpleNamespace(settle=lambda: None)
    cluster: Any = SimpleNamespace(ends=lambda _topic: {0: 5})
    for _ in range(2):
        stream._publish(outbox, cluster, lambda: 0)
    assert (files.period.is_settled(1), files.period.matches_end) == (True, {0: 5})
    assert files.progress.bad == 2
    assert capsys.readouterr().err.count("could not be read: 2") == 1


def test_posts_are_sent_with_their_own_times() -> None:
    day, later = 1_714_730_400_000, 1_714_816_800_000
    in_a_year = now_ms() + 365 * DAY_MS
    times = (later, day, 0, in_a_year)  # a broker refuses what is of the future
    posts = [SimpleNamespace(reading=None, value=b"{}", key=b"", timestamp=at) for at in times]
    sent: list[int] = []
    outbox: Any = SimpleNamespace(settle=lambda: None, send=lambda *_, at: sent.append(at))
    cluster: Any = SimpleNamespace(ends=lambda _topic: {0: 5})

    class File(list[Any]):
        name, size, is_file = "posts.csv", 0, False

    state: Any = SimpleNamespace(offset=1)
    inputs: Any = [File([posts])]
    files = PostFiles(inputs)
    files.period.latest = FilePass(version=1, control_offset=1)
    FileStream(Config(), files, lambda: state, lambda: None)._publish(outbox, cluster, lambda: 0)
    latest = files.period.latest
    assert sent[:3] == [later, day, 0]
    assert sent[3] <= now_ms()
    assert (latest.first, latest.last, latest.posts) == (day, sent[3], 4)


@pytest.mark.parametrize(
    ("answers", "waits"),
    [(["old", "old", "new"], 2), (["new"], 0), ([None, "new"], 1), (["old", None, "new"], 2)],
)
def test_posts_wait_until_the_worker_matches_with_the_new_articles(
    monkeypatch: pytest.MonkeyPatch, answers: list[str | None], waits: int
) -> None:
    left = iter(answers)
    monkeypatch.setattr(file_stream, "read_seed_set", lambda _address: next(left))
    inputs: Any = [SimpleNamespace(name="posts.csv")]
    monkeypatch.setattr(file_stream, "share_read", lambda _inputs: lambda _at: 0.0)
    state: Any = None
    stream = FileStream(Config(), PostFiles(inputs), lambda: state, lambda: None, lambda: "new")
    pauses: list[float] = []
    end: Any = SimpleNamespace(wait=lambda seconds: pauses.append(seconds))
    stream._end = end
    assert stream._wait_for_seeds()
    assert (len(pauses), next(left, "none")) == (waits, "none")


def test_a_project_that_cannot_be_written_is_tried_again_and_the_desk_stays_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "SAVE_INTERVAL_S", 0.001)
    tries: list[int] = []

    def save(*_states: object) -> None:
        tries.append(1)
        if len(tries) < 4:
            raise OutputError("labels.jsonl: no space left on device")

    project: Any = SimpleNamespace(save=save)
    desk: Any = SimpleNamespace(mirrors=SimpleNamespace(control=None, labels=None))
    stopped = Event()
    thread = Thread(target=command.save_project, args=(project, desk, stopped))
    thread.start()
    until(lambda: len(tries) > 5)
    stopped.set()
    thread.join()
    said = capsys.readouterr().err
    assert said.count("no space left") == 1
    assert "saved again" in said


def test_records_without_room_never_replace_those_of_the_files(tmp_path: Path) -> None:
    state = ControlReducer()
    state.apply([ControlRecord(b"a", b'{"text": "a ferry burns"}', 7)])
    state.finish()
    labels = LabelReducer()
    labels.finish()
    with open_project(tmp_path) as project:
        project.describe([], FileOptions())
        project.save(state.snapshot(), labels.snapshot())
        before = (tmp_path / "seeds.jsonl").read_bytes()
        assert read_records(tmp_path / "seeds.jsonl") == {b"a": b'{"text": "a ferry burns"}'}
        with pytest.raises(RunError, match="1 records have no room"):
            project.save(replace(state.snapshot(), left_out=1, records={}), labels.snapshot())
    assert (tmp_path / "seeds.jsonl").read_bytes() == before


def test_notes_and_labels_that_are_refused_stay_in_the_file(tmp_path: Path) -> None:
    """They may be read again: by a newer version, or with a higher limit."""
    label = b'{"label": "on", "event": "ferry", "post": {"id": "1", "platform": "x", "text": ""}}'
    control, labels = ControlReducer(), LabelReducer()
    note = Note("jokes are off", "ferry", "ann", "2026-03-01T10:00:00Z")
    records = {b'["ferry","x","1","ann"]': label, b"k": b"{", note.key: note.value}
    labels.apply(ControlRecord(*each, offset=n) for n, each in enumerate(records.items()))
    for reducer in (control, labels):
        reducer.finish()
    assert len(labels.snapshot().refused) == 2
    with open_project(tmp_path) as project:
        project.describe([], FileOptions())
        project.save(control.snapshot(), labels.snapshot())
    assert read_records(tmp_path / "labels.jsonl") == records
