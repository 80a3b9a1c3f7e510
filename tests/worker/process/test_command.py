"""`faust -A worker worker` from outside: what goes in, what comes out, and how it ends."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from newsift.broker.server import Address, running
from tests.worker.small import ARTICLES, ControlTopic, Mail, small_encoder
from tests.worker.stream.process import (
    FAUST,
    ROOT,
    behind,
    environment,
    posts,
    publish,
    read,
    seeds,
    topics,
    until,
    worker,
)  # fmt: skip
from worker.match.pipeline import Pipeline
from worker.seeds.embedder import SeedEmbedder

PHRASES = ("match game music", "storm flood river city", "a cat and police", "fire")
TEXTS = [f"{PHRASES[n % 4]} {n}" for n in range(300)]
POISON: list[tuple[str | None, bytes | None]] = [("a", b"{"), (None, b""), ("b", b'{"id": 1}')]


@pytest.fixture
def broker() -> Iterator[Address]:
    with running() as address:
        yield address


def expected() -> dict[str, list[str]]:
    """Which matches each post has, by the pipeline alone."""
    book = ControlTopic()
    for name in ("flood", "game"):
        book.put(name.encode(), json.dumps({"text": ARTICLES[name]}).encode())
    mails = [
        Mail(json.dumps({"id": str(n), "text": text}).encode()) for n, text in enumerate(TEXTS)
    ]
    enc = small_encoder()
    made = SeedEmbedder(enc, 0.01, 0.4).make(book.snapshot())
    outcome = Pipeline(enc).run(mails, made, lambda: "")
    values = [json.loads(record.value or b"") for record in outcome.records]
    return {v["post"]["id"]: [m["match_id"] for m in v["matches"]] for v in values}


def test_a_new_broker_gets_topics_matches_and_dead_letters(broker: str, tmp_path: Path) -> None:
    wanted = expected()
    assert 0 < len(wanted) < len(TEXTS)
    with worker(broker, tmp_path) as first:
        first.wait_for("ready: 0 seeds")
        seeds(broker, flood=ARTICLES["flood"], game=ARTICLES["game"])
        first.wait_for("2 seeds")
        posts(broker, TEXTS)
        publish(broker, "tweets", POISON)
        found = [json.loads(r.value) for r in read(broker, "matched-tweets", len(wanted))]
        assert {v["post"]["id"]: [m["match_id"] for m in v["matches"]] for v in found} == wanted
        dead = read(broker, "rejected-tweets", len(POISON))
        assert sorted((r.key and r.key.decode(), r.value) for r in dead if r.key) == [
            ("a", b"{"), ("b", b'{"id": 1}'),
        ]  # fmt: skip
        until(lambda: behind(broker) == 0)
        assert first.terminate() == 0
    assert "Traceback" not in first.stderr
    assert {t for t in topics(broker) if not t.startswith("__")} == {
        "tweets", "seed-articles", "matched-tweets", "rejected-tweets",
    }  # fmt: skip


@pytest.mark.slow
def test_two_workers_on_one_host_share_the_posts(broker: str, tmp_path: Path) -> None:
    seeds(broker, flood=ARTICLES["flood"])
    # Without a configured port both want the same one, and Faust's own web server too.
    with (
        worker(broker, tmp_path, NEWSIFT_WEB__PORT="") as first,
        worker(broker, tmp_path, NEWSIFT_WEB__PORT="") as second,
    ):
        first.wait_for("ready: 1 seeds")
        second.wait_for("ready: 1 seeds")
        posts(broker, ["storm flood river city"] * 50)
        read(broker, "matched-tweets", 50)
        until(lambda: behind(broker) == 0)
        assert second.terminate() == 0
        posts(broker, ["storm flood river city"] * 50, start=50)
        until(lambda: behind(broker) == 0)
        assert first.terminate() == 0
    found = {json.loads(r.value)["post"]["id"] for r in read(broker, "matched-tweets", 100)}
    assert found == {str(n) for n in range(100)}
    assert "Traceback" not in first.stderr + second.stderr


@pytest.mark.slow
def test_sigterm_with_lag_commits_finished_batches_and_loses_nothing(
    broker: str, tmp_path: Path
) -> None:
    seeds(broker, flood=ARTICLES["flood"])
    posts(broker, ["storm flood river city"] * 5000)
    small = {"NEWSIFT_STREAM__BATCH_POSTS": "50"}
    with worker(broker, tmp_path, **small) as first:
        first.wait_for("partitions of tweets to read: 0")
        read(broker, "matched-tweets", 1)
        assert first.terminate() == 0
    done = 5000 - behind(broker)
    written = read(broker, "matched-tweets", done)
    assert 0 < done <= len(written)
    with worker(broker, tmp_path, **small) as second:
        until(lambda: behind(broker) == 0)
        assert second.terminate() == 0
    rest = read(broker, "matched-tweets", 5000)
    assert {json.loads(r.value)["post"]["id"] for r in rest} == {str(n) for n in range(5000)}
    assert len(rest) == 5000  # after an orderly end nothing is delivered twice


@pytest.mark.slow
def test_an_outage_of_the_broker_loses_nothing(broker: Address, tmp_path: Path) -> None:
    seeds(broker, flood=ARTICLES["flood"])
    small = {"NEWSIFT_STREAM__BATCH_POSTS": "20", "NEWSIFT_STREAM__PRODUCE_DEADLINE_S": "0.2"}
    with worker(broker, tmp_path, **small) as process:
        process.wait_for("partitions of tweets to read: 0")
        posts(broker, ["storm flood river city"] * 8000)
        read(broker, "matched-tweets", 1)
        broker.stop()
        process.wait_for("the output has not acknowledged")
        broker.start()
        until(lambda: behind(broker) == 0)
        seeds(broker, game=ARTICLES["game"])
        process.wait_for("2 seeds")
        assert process.terminate() == 0
    found = [json.loads(r.value)["post"]["id"] for r in read(broker, "matched-tweets", 8000)]
    assert sorted(found, key=int) == [str(n) for n in range(8000)]


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        ({"NEWSIFT_KAFKA": "127.0.0.1:1"}, 1, "nobody listens there"),
        ({"NEWSIFT_STREAM__IN_FLIGHT": "many"}, 2, "in_flight"),
        ({"NEWSIFT_MODEL__NAME": "no-such-model"}, 2, "no-such-model"),
        ({"NEWSIFT_TOPICS__CREATE": "false"}, 2, "newsift topics create"),
    ],
    ids=["no-broker", "bad-config", "no-model", "no-topics"],
)
def test_a_refusal_is_one_line_and_its_exit_code(
    broker: str, tmp_path: Path, more: dict[str, str], code: int, said: str
) -> None:
    with worker(broker, tmp_path, NEWSIFT_LOG__LEVEL="warning", **more) as refused:
        assert refused.wait() == code
    [line] = refused.stderr.splitlines()
    assert line.startswith("newsift: ")
    assert said in line


@pytest.mark.slow
def test_with_newsift_debug_the_traceback_is_shown(broker: str, tmp_path: Path) -> None:
    more = {"NEWSIFT_KAFKA": "127.0.0.1:1", "NEWSIFT_DEBUG": "1"}
    with worker(broker, tmp_path, **more) as refused:
        assert refused.wait() == 1
    assert "Traceback" in refused.stderr


def faust(*arguments: str, folder: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    """Run a command of Faust's without a broker."""
    env = environment("127.0.0.1:1", folder, **more) | {"PYTHONPATH": str(folder)}
    return subprocess.run(
        [FAUST, *arguments], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )


def test_faust_options_are_followed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    options = ["-l", "INFO", "-p", port, "-f", str(tmp_path / "log")]
    done = faust("-A", "worker", "worker", *options, folder=tmp_path, NEWSIFT_LOG__FORMAT="json")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "nobody listens there" in json.loads(line)["message"]
    log = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert {"time", "level", "logger", "message"} == set.union(*map(set, log))
    assert f"web: http://127.0.0.1:{port}/metrics" in [entry["message"] for entry in log]
    assert any(entry["logger"].startswith("faust") for entry in log)
    assert "datadir" not in done.stdout
    assert f"{tmp_path}/log (info)" in done.stdout.replace("\n", "")


def test_a_faust_option_without_effect_is_refused(tmp_path: Path) -> None:
    done = faust("-A", "worker", "worker", "--without-web", folder=tmp_path)
    assert (done.returncode, "No such option: --without-web" in done.stderr) == (2, True)


def test_faust_lists_the_agent_and_refuses_one_that_would_never_receive(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from worker import app\n\n@app.agent(app.topic('matched-tweets'))\n"
        "async def watch(stream):\n    ...\n"
    )
    listed = faust("-A", "worker", "agents", folder=tmp_path).stdout
    assert "@sift" in listed
    assert "tweets" in listed
    done = faust("-A", "mine", "worker", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("newsift: agent mine.watch: reads the topic matched-tweets")


def test_the_process_loads_nothing_of_newsift() -> None:
    code = "import sys, worker.process; print([m for m in sys.modules if m.startswith('newsift')])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "[]\n"
