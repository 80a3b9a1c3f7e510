"""From 1 worker to 8 and back on the lag of a real Kafka, with a real process behind each pod.

KEDA reads the lag and writes the autoscaler; Kubernetes' controllers and scheduler make the pods.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import encoder
from newsift.operations.cluster_status import read_offsets
from tests.broker.clients import producer, read_to_end
from tests.broker.server import opened
from tests.deploy.cluster.autoscaler import start_keda
from tests.deploy.cluster.control_plane import ControlPlane
from tests.deploy.cluster.dry_run import NAMESPACE, kustomized, show
from tests.deploy.cluster.pod_runner import PodRunner
from tests.deploy.manifests import HERE
from tests.faults.process import ROOT
from worker.config import load_config
from worker.kafka.reading import connected
from worker.kafka.topics import admin_client
from worker.process.prepare import warm_up

SEED = ROOT / "worker" / "samples" / "seeds" / "ferry-fire.md"
TEXT = "fire on the ferry Astrid Vane off Port Maren, nine people are missing ({})"
SHIPPED = "kafka.kafka.svc:9092"
WORKER = "newsift-worker"
NODES, NODE = 4, {"cpu": "4", "memory": "8Gi", "pods": "110"}
HPA_PERIOD_S = 5.0  # of the controller, whose default is 15
FIRST, MORE, LATER = 60_000, 20_000, 2_000  # posts
UP_WITHIN_S, DRAINED_WITHIN_S, DOWN_WITHIN_S = 300, 300, 480
STEP_S = 0.5
API_GROUP = "/apis/apps/v1/namespaces"


class Scaling:
    """One run: the cluster, the topic and what was seen of them."""

    def __init__(self, plane: ControlPlane, folder: Path, kafka: str) -> None:
        self.plane, self.folder = plane, folder
        tree = copytree(HERE, folder / "tree")
        for file in ("base/config.yaml", "overlays/keda/scaled-object.yaml"):
            text = (tree / file).read_text("utf-8")
            assert SHIPPED in text, file
            (tree / file).write_text(text.replace(SHIPPED, kafka), "utf-8")
        objects = kustomized(plane, tree / "overlays/keda")
        assert not isinstance(objects, str), objects
        self.objects = objects
        [self.scaled] = [item for item in objects if item["kind"] == "ScaledObject"]
        [settings] = [item for item in objects if item["kind"] == "ConfigMap"]
        self.file = folder / "config.yaml"
        self.file.write_text(settings["data"]["config.yaml"], "utf-8")
        self.config = load_config(self.file, {})
        self.kafka, self.published = kafka, 0
        self.runner = PodRunner(plane, NAMESPACE, folder)
        self.most = self.most_ready = 0
        self._last: tuple[int, ...] = ()
        self._began = time.monotonic()

    def publish(self, count: int) -> None:
        with producer(self.kafka, linger_ms=20) as client:
            for number in range(self.published, self.published + count):
                post = {"id": str(number), "text": TEXT.format(number)}
                value = json.dumps(post).encode()
                client.send(self.config.topics.posts, value, key=str(number).encode())
        self.published += count

    def lag(self) -> int:
        with connected(self.config) as cluster, admin_client(self.config) as admin:
            return sum(read_offsets(cluster, admin, self.config).lag.values())

    def run(self) -> list[str]:
        warm_up(encoder.load(device="cpu"), why=True)  # an image has its compiled code too
        partitions = self.config.topics.partitions
        self._command("topics", "create")
        self._command("seeds", "add", str(SEED), "--threshold", "0.01", "--no-preview")
        self.publish(FIRST)
        show(f"{FIRST} posts wait for a new group; now the manifests are applied")
        self._deploy()
        up = self._until(lambda: self._ready() == partitions, UP_WITHIN_S, top_up=True)
        show(f"  {partitions} ready after {up:.0f} s, {self.published} posts published")
        drained = self._until(lambda: not self.lag(), DRAINED_WITHIN_S)
        show(f"  all {self.published} posts are committed after {drained:.0f} s more")
        down = self._until(self._is_back_at_one, DOWN_WITHIN_S)
        show(f"  1 worker again after {down:.0f} s more")
        self.publish(LATER)
        self._until(lambda: not self.lag(), DRAINED_WITHIN_S)
        return [*self._judge(partitions)]

    def _judge(self, partitions: int) -> Iterator[str]:
        """What failed, and the figures."""
        records = read_to_end(self.kafka, self.config.topics.matches)
        values = [json.loads(record.value) for record in records]
        ids = Counter(value["post"]["id"] for value in values)
        missing = self.published - len(ids)
        repeated = sum(ids.values()) - len(ids)
        stream = self.config.stream
        bound = stream.in_flight * stream.batch_posts  # what a worker has in flight at the most
        codes = Counter(code for _, code in self.runner.exits)
        total = self.published
        show(f"posts {total}, missing {missing}, duplicates {repeated} (at most {bound})")
        show(f"replicas at most {self.most} of {partitions} partitions, ready {self.most_ready}")
        show(f"processes started {self.runner.started}, exit codes {dict(codes)}")
        if missing or repeated > bound:
            yield f"{missing} posts are missing, {repeated} are there twice"
        if self.most > partitions or self.most_ready != partitions:
            yield f"replicas went to {self.most}, ready {self.most_ready}, of {partitions}"
        if set(codes) != {0} or self.runner.started != partitions:
            yield f"processes ended with {dict(codes)}, {self.runner.started} were started"

    def _command(self, *arguments: str) -> None:
        command = [str(Path(sys.executable).with_name("newsift")), *arguments]
        env = os.environ | {"NEWSIFT_CONFIG": str(self.file)}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def _deploy(self) -> None:
        """Apply the overlay as it is, and what a cluster has: nodes, volumes and KEDA."""
        facts = [*map(node, range(NODES)), *map(volume, range(12))]
        refusal = self.plane.apply(facts) or self.plane.apply(self.objects)
        assert not refusal, refusal
        start_keda(self.plane, self.folder / "keda")
        self.plane.start_controllers(HPA_PERIOD_S)

    def _until(self, holds: Callable[[], bool], patience: float, *, top_up: bool = False) -> float:
        """Go on until it holds; returns the seconds that it took."""
        began = time.monotonic()
        least = self.config.topics.partitions * int(
            self.scaled["spec"]["triggers"][0]["metadata"]["lagThreshold"]
        )
        while True:
            self.runner.step()
            self._look()
            if holds():
                return time.monotonic() - began
            if time.monotonic() - began > patience:
                raise RuntimeError(f"what must happen did not within {patience} s{self._report()}")
            if top_up and self.lag() < least:
                self.publish(MORE)
            time.sleep(STEP_S)

    def _look(self) -> None:
        """Note the number of workers, and print each change of it."""
        item = self.plane.call("GET", f"{API_GROUP}/{NAMESPACE}/statefulsets/{WORKER}")
        wanted = item["spec"]["replicas"]
        alive = sum(each.process.poll() is None for each in self.runner.running.values())
        now = (wanted, len(self.runner.pods()), self._ready(), alive)
        self.most, self.most_ready = max(self.most, *now[:2]), max(self.most_ready, now[2])
        if now != self._last:
            seconds = time.monotonic() - self._began
            show(f"  {seconds:5.0f} s: replicas {now[0]}, pods {now[1]}, ready {now[2]}, processes "
                 f"{now[3]}, lag {self.lag()}")  # fmt: skip
            self._last = now

    def _ready(self) -> int:
        return sum(each.ready for each in self.runner.running.values())

    def _is_back_at_one(self) -> bool:
        return self._last == (1, 1, 1, 1)

    def _report(self) -> str:
        state = self.plane.kubectl("get", "hpa,statefulset,pods,pvc,events", "-A").stdout
        logs = [file.read_text("utf-8", "replace")[-800:] for file in self.folder.glob("*-?.log")]
        return "\n".join(["", state[-6000:], *logs])


def node(number: int) -> Any:
    name = f"node-{number}"
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": NODE, "allocatable": NODE},
    }  # fmt: skip


def volume(number: int) -> Any:
    """A volume for a claim; nothing is ever written to it here."""
    name = f"volume-{number}"
    return {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": f"/volumes/{name}"},
        },
    }  # fmt: skip


def run(plane: ControlPlane, folder: Path) -> list[str]:
    home = folder / "kafka"
    home.mkdir()
    with opened("apache", home) as broker:
        scaling = Scaling(plane, folder, broker.address)
        try:
            return scaling.run()
        finally:
            scaling.runner.stop()
