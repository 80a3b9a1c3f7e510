"""`newsift collect bluesky` as a user runs it: killed, stopped, started twice, without a broker."""

import fcntl
import json
import signal
import sys
import termios
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.broker.clients import until
from tests.newsift.cli.collect.process import Start, starting
from tests.newsift.collect.jetstream_side import (
    JetstreamSide,
    address,
    after,
    event,
    fall_silent,
    serve_jetstream,
)
from tests.newsift.collect.threads import in_a_thread
from tests.worker.fake import Command
from tests.worker.kafka_side import POSTS, Kafka

COUNT = 400
PIPE = 2**12  # bytes that nobody reads


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def side(request: pytest.FixtureRequest) -> Iterator[JetstreamSide]:
    with in_a_thread(serve_jetstream(JetstreamSide(request.param, COUNT))) as (result, _):
        yield result


@pytest.fixture
def first() -> Iterator[JetstreamSide]:
    """One of the first interface, for what does not depend on it."""
    with in_a_thread(serve_jetstream(JetstreamSide(1, COUNT))) as (result, _):
        yield result


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a collector, which is ended with the test if it has not ended."""
    with starting() as result:
        yield result


def soon(holds: Callable[[], bool]) -> None:
    """Wait until it holds; a process takes its time to start on a busy machine."""
    until(holds, 90.0)


def stored(state: Path) -> int:
    return int(json.loads(state.read_bytes())["cursor"]) if state.exists() else -1


def keys(kafka: Kafka) -> set[str]:
    return {record.key.decode() for record in kafka.records(POSTS)}


@pytest.mark.slow
def test_killed_again_and_again_nothing_is_missing(
    kafka: Kafka, side: JetstreamSide, tmp_path: Path, start: Start
) -> None:
    state = tmp_path / "state.json"
    side.faults.extend(after(90, fall_silent) for _ in range(3))
    for number in (89, 178, 267):  # each visit goes on at the last of the one before
        process = start("bluesky", "--url", side.url, "--state", state)
        soon(lambda number=number: stored(state) >= side.cursor_of(number))  # type: ignore[misc]
        process.kill()
    process = start("bluesky", "--url", side.url, "--state", state)
    soon(lambda: stored(state) == side.cursor_of(COUNT - 1))
    assert process.leave()[0] == 0
    assert keys(kafka) == {address(number) for number in range(COUNT)}
    assert side.cursors[1:] == [side.cursor_of(n) for n in (89, 178, 267)]
    values = {record.value.decode() for record in kafka.records(POSTS)}
    assert values == set(side.events)


@pytest.mark.slow
def test_a_broker_that_was_away_gets_what_came_meanwhile(
    kafka: Kafka, first: JetstreamSide, tmp_path: Path, start: Start
) -> None:
    state = tmp_path / "state.json"
    process = start("bluesky", "--url", first.url, "--state", state)
    soon(lambda: stored(state) == first.cursor_of(COUNT - 1))
    kafka.address.stop()
    first.events += [event(number, 1) for number in range(COUNT, COUNT + 50)]
    soon(lambda: first.sent == COUNT + 50)
    kafka.address.start()
    soon(lambda: stored(state) == first.cursor_of(COUNT + 49))
    code, message = process.leave()
    assert code == 0
    assert "450 frames of bluesky sent to tweets" in message
    assert keys(kafka) == {address(number) for number in range(COUNT + 50)}


def test_ctrl_c_keeps_how_far_it_came(
    kafka: Kafka, first: JetstreamSide, tmp_path: Path, start: Start
) -> None:
    state = tmp_path / "folder" / "state.json"
    process = start("bluesky", "--url", first.url, "--state", state)
    soon(lambda: len(first.requests) == 1 and first.sent == COUNT)
    code, message = process.leave(signal.SIGINT)
    assert (code, message.splitlines()[-1]) == (130, "newsift: interrupted")
    assert message.splitlines()[0] == f"newsift: how far it came is kept in {state}"
    assert stored(state) == first.cursor_of(len(keys(kafka)) - 1)


@pytest.mark.slow
def test_health_and_metrics_are_served(
    kafka: Kafka, first: JetstreamSide, tmp_path: Path, start: Start
) -> None:
    process = start("bluesky", "--url", first.url, "--state", tmp_path / "state.json",
                             NEWSIFT_WEB__PORT="0")  # fmt: skip
    assert process.process.stderr is not None
    message = process.process.stderr.readline()
    while "/metrics" not in message:
        assert message, "it ended before it served anything"
        message = process.process.stderr.readline()
    url = message.split()[-1]
    soon(lambda: b'acknowledged_total{source="bluesky"} 400' in read(url))
    assert json.loads(read(url.replace("metrics", "readyz"))) == {"ready": True, "reason": ""}
    assert process.leave()[0] == 0


def read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:
        result: bytes = answer.read()
    return result


@pytest.mark.slow
def test_a_dry_run_prints_and_keeps_nothing(
    first: JetstreamSide, tmp_path: Path, start: Start
) -> None:
    state = tmp_path / "state.json"
    process = start("bluesky", "--url", first.url, "--state", state, "--dry-run")
    assert process.process.stdout is not None
    lines = [process.process.stdout.readline().rstrip("\n") for _ in range(COUNT)]
    assert lines == first.events
    assert process.leave()[0] == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_dry_run_ends_though_nobody_reads_on(
    start: Start, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with in_a_thread(serve_jetstream(JetstreamSide(1, 10 * COUNT))) as (side, _):
        command = start("bluesky", "--url", side.url, "--state", tmp_path / "s", "--dry-run")
        pipe = command.process.stdout
        assert pipe is not None
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE)
        soon(lambda: waiting_in(pipe.fileno()) > PIPE // 2)
        command.process.send_signal(number)
        assert command.process.wait(60) == code
        assert "Traceback" not in command.ended()[1]


def waiting_in(pipe: int) -> int:
    """The bytes that were written to a pipe, and not read."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4), sys.byteorder)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--url", "ws://127.0.0.1:1/firehose"), "--url: the path '/firehose' is none of a"),
        (("--url", "ftp://127.0.0.1/subscribe"), "--url: 'ftp://127.0.0.1/subscribe'; give an"),
        (("--url", "subscribe"), "--url: 'subscribe'; give an address with ws or"),
        (("--url", "wss://[::/subscribe"), "--url: 'wss://[::/subscribe'; give"),
        (("--state", "/dev/null/state"), "--state: /dev/null/state cannot be written"),
        (("--kafka", "127.0.0.1:1"), "broker 127.0.0.1:1: nobody listens there"),
    ],
)
def test_what_cannot_be_is_one_line(
    newsift: Command, tmp_path: Path, args: tuple[str, ...], message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("NEWSIFT_STATE", str(tmp_path))
    done = newsift("collect", "bluesky", *args)
    last = done.err.splitlines()[-1]
    assert done.code == (1 if "--kafka" in args else 2)
    assert last.startswith(f"newsift: {message}")
    assert done.out == ""
