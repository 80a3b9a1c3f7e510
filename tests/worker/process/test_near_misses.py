"""Near misses of a running worker over HTTP."""

import json
import re
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from newsift.broker.server import running
from newsift.operations.workers import Identity, kafka_cluster_id, own_workers
from tests.worker.stream.process import behind, posts, publish, until, worker
from worker.config import Config, KafkaConfig

pytestmark = pytest.mark.slow

EVENT = "fähre & co\n%"
NEARBY = "A boat burns off the coast"


def asked(port: int, event: str) -> tuple[int, Any]:
    """The status and the body of an answer at /near."""
    link = HTTPConnection("127.0.0.1", port, timeout=10)
    link.request("GET", f"/near?event={quote(event, safe='')}")
    answer = link.getresponse()
    found = answer.status, json.loads(answer.read())
    link.close()
    return found


def test_a_running_worker_serves_its_near_misses(tmp_path: Path) -> None:
    article = "A fire broke out on a ferry off the coast; a boat rescued all passengers."
    model = {"NEWSIFT_MODEL__NAME": "default", "NEWSIFT_WEB__PORT": "0"}
    model["NEWSIFT_MATCHING__THRESHOLD"] = "0.99"
    with running() as broker, worker(str(broker), tmp_path, **model) as first:
        first.wait_for("ready: 0 seeds")
        record = {"text": article, "event": EVENT}
        publish(str(broker), "seed-articles", [("ferry", record)])
        first.wait_for("1 seeds")
        posts(str(broker), [f"{NEARBY} {n}" for n in range(300)] + ["what a lovely morning"] * 50)
        until(lambda: behind(str(broker)) == 0)
        found = re.search(r"http://127\.0\.0\.1:(\d+)/metrics", first.stderr)
        assert found is not None
        port = int(found[1])
        assert asked(port, "no such event")[0] == 404
        config = Config(kafka=KafkaConfig(bootstrap_servers=str(broker)))
        ours = Identity(kafka_cluster_id(config), config.kafka.group)
        assert own_workers([f"127.0.0.1:{port}"], ours) == [f"127.0.0.1:{port}"]
        status, body = asked(port, EVENT)
        assert first.terminate() == 0
    assert (status, body["event"], list(body["edges"])) == (200, EVENT, ["ferry"])
    edges = body["edges"]["ferry"]
    assert edges == sorted(edges, reverse=True)
    first_stratum, second = body["strata"]
    assert first_stratum["count"] + second["count"] >= 300
    for at, stratum in enumerate(body["strata"]):
        kept = stratum["kept"]
        assert len(kept) == min(stratum["count"], 200)
        assert all(edges[at + 1] <= near["score"] < edges[at] for near in kept)
