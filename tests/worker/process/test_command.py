import json
import re
import socket
import subprocess
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from encoder.model_directory import write_model
from newsift.broker.server import Address, running
from newsift.operations.workers import WorkerIdentity, kafka_cluster_id, own_workers
from tests.broker.clients import until
from tests.encoder.small_model import small_model
from tests.worker.command_processes import BIN, environment, logged
from tests.worker.command_topics import Kafka
from tests.worker.small_encoder import value
from worker.config import Config, KafkaConfig
from worker.metrics.address_file import WorkerAddress

ROOT = Path(__file__).parents[3]


def settings(address: str, folder: Path, **more: str) -> dict[str, str]:
    if not (folder / "model").is_dir():
        write_model(folder / "model", small_model())
    own = {
        "NEWSIFT_KAFKA": address,
        "NEWSIFT_MODEL__NAME": str(folder / "model"),
        "NEWSIFT_MODEL__THREADS": "1",
        "NEWSIFT_MODEL__DEVICE": "cpu",
        "NEWSIFT_MATCHING__THRESHOLD": "0.4",
        "NEWSIFT_WEB__PORT": "0",
    }
    return environment(**own | more)


@pytest.fixture
def broker() -> Iterator[Address]:
    with running() as address:
        yield address


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        ({"NEWSIFT_KAFKA": "127.0.0.1:1"}, 1, "nobody listens there"),
        ({"NEWSIFT_STREAM__IN_FLIGHT": "many"}, 2, "in_flight"),
        ({"NEWSIFT_MODEL__NAME": "no-such-model"}, 2, "no-such-model"),
        ({"NEWSIFT_TOPICS__CREATE": "false"}, 2, "newsift topics create"),
    ],
    ids=["no-broker", "bad-config", "no-model", "no-topics"],
)
def test_a_refusal_is_one_line_and_its_exit_code(
    broker: str, tmp_path: Path, more: dict[str, str], code: int, message: str
) -> None:
    own = {"NEWSIFT_KAFKA": broker, "NEWSIFT_LOG__LEVEL": "warning"} | more
    done = faust("-A", "worker", "worker", folder=tmp_path, **own)
    assert done.returncode == code
    [line] = done.stderr.splitlines()
    assert line.startswith("newsift: ")
    assert message in line


def faust(*arguments: str, folder: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    env = settings("127.0.0.1:1", folder, **more) | {"PYTHONPATH": str(folder)}
    return subprocess.run(
        [BIN / "faust", *arguments], cwd=ROOT, env=env, capture_output=True, text=True, check=False
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
    line = "newsift: No such option: --without-web; see 'faust worker --help'\n"
    assert (done.returncode, done.stderr) == (2, line)


EVENT = "fähre & co\n%"
NEARBY = "A boat burns off the coast"


def near_misses(port: int, event: str) -> tuple[int, Any]:
    link = HTTPConnection("127.0.0.1", port, timeout=10)
    link.request("GET", f"/near?event={quote(event, safe='')}")
    answer = link.getresponse()
    result = answer.status, json.loads(answer.read())
    link.close()
    return result


@pytest.mark.slow
def test_a_running_worker_serves_its_near_misses(broker: Address, tmp_path: Path) -> None:
    article = "A fire broke out on a ferry off the coast; a boat rescued all passengers."
    model = {"NEWSIFT_MODEL__NAME": "default", "NEWSIFT_MATCHING__THRESHOLD": "0.99"}
    env, kafka = settings(broker, tmp_path, **model), Kafka(broker)
    with logged(tmp_path, "faust", "-A", "worker", "worker", env=env) as first:
        first.wait_for("ready: 0 seeds")
        kafka.send("seed-articles", value(text=article, event=EVENT), b"ferry")
        first.wait_for("1 seeds")
        texts = [f"{NEARBY} {n}" for n in range(300)] + ["what a lovely morning"] * 50
        kafka.fill("tweets", [value(id=n, text=text) for n, text in enumerate(texts)])
        result = re.search(r"http://127\.0\.0\.1:(\d+)/metrics", first.output)
        assert result is not None
        port = int(result[1])
        until(lambda: near_misses(port, EVENT)[1].get("seen") == len(texts))
        assert near_misses(port, "no such event")[0] == 404
        config = Config(kafka=KafkaConfig(bootstrap_servers=broker))
        ours = WorkerIdentity(kafka_cluster_id(config), config.kafka.group)
        assert len(own_workers([WorkerAddress(f"127.0.0.1:{port}")], ours)) == 1
        status, body = near_misses(port, EVENT)
        assert first.leave() == 0
    assert (status, body["event"], list(body["edges"])) == (200, EVENT, ["ferry"])
    edges = body["edges"]["ferry"]
    assert edges == sorted(edges, reverse=True)
    first_stratum, second = body["strata"]
    assert first_stratum["count"] + second["count"] >= 300
    for at, stratum in enumerate(body["strata"]):
        sample = stratum["kept"]
        assert len(sample) == min(stratum["count"], 200)
        assert all(edges[at + 1] <= near["score"] < edges[at] for near in sample)
