"""A kubelet of a few lines: each worker's pod on a node is a process of this machine.

A pod is ready while /readyz of its process answers. When a pod is deleted, its process gets
SIGTERM, and SIGKILL after the pod's grace period; the pod goes when the process has ended.
"""

import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from newsift.cli.processes import free_port
from newsift.operations.workers import ANSWER_ERRORS, http_get
from tests.deploy.cluster.control_plane import MERGE, ControlPlane
from tests.faults.process import ARGUMENTS, FAUST, ROOT

COMPONENT = "app.kubernetes.io/component"
ANSWER_S = 2.0
# What a process on this machine gets in another way than a pod: all share its cache and its ports.
OWN = {"NEWSIFT_CONFIG", "NEWSIFT_CACHE"}
KINDS = ("PodScheduled", "Initialized", "ContainersReady", "Ready")


@dataclass
class Backed:
    """A pod and the process behind it."""

    name: str
    process: "subprocess.Popen[bytes]"
    port: int
    grace_s: float
    ready: bool = False
    told_at: float | None = None  # when it was told to end


@dataclass
class PodRunner:
    """Call `step` again and again; `stop` ends all processes."""

    plane: ControlPlane
    namespace: str
    folder: Path
    running: dict[str, Backed] = field(default_factory=dict)  # by the pod's uid
    exits: list[tuple[str, int]] = field(default_factory=list)
    started: int = 0

    def step(self) -> None:
        pods = {pod["metadata"]["uid"]: pod for pod in self.pods()}
        for uid, pod in pods.items():
            if uid not in self.running and pod["spec"].get("nodeName"):
                if "deletionTimestamp" in pod["metadata"]:
                    self._remove(pod["metadata"]["name"])
                else:
                    self._start(uid, pod)
        for uid, backed in list(self.running.items()):
            self._follow(uid, backed, pods.get(uid))

    def pods(self) -> list[Any]:
        """The pods of workers."""
        path = f"/api/v1/namespaces/{self.namespace}/pods?labelSelector={COMPONENT}%3Dworker"
        items: list[Any] = self.plane.call("GET", path)["items"]
        return items

    def stop(self) -> None:
        for backed in self.running.values():
            backed.process.kill()
            backed.process.wait()

    def _start(self, uid: str, pod: Any) -> None:
        name, port = pod["metadata"]["name"], free_port()
        path = f"/api/v1/namespaces/{self.namespace}/configmaps/newsift-config"
        config = self.folder / f"{name}.yaml"
        config.write_text(self.plane.call("GET", path)["data"]["config.yaml"], "utf-8")
        env = os.environ | self._environment(pod)
        env |= {
            "NEWSIFT_CONFIG": str(config), "NEWSIFT_WEB__HOST": "127.0.0.1",
            "NEWSIFT_WEB__PORT": str(port), "NEWSIFT_MODEL__THREADS": "1", "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [FAUST, *ARGUMENTS],
                cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        grace = float(pod["spec"]["terminationGracePeriodSeconds"])
        self.running[uid] = Backed(name, process, port, grace)
        self.started += 1
        self._report(name, ready=False)

    def _environment(self, pod: Any) -> dict[str, str]:
        """The variables of the pod's manifest; a Secret that is optional is not there."""
        variables = {}
        for entry in pod["spec"]["containers"][0]["env"]:
            source = (entry.get("valueFrom") or {}).get("fieldRef")
            if source == {"apiVersion": "v1", "fieldPath": "metadata.name"}:
                variables[entry["name"]] = pod["metadata"]["name"]
            elif "value" in entry:
                variables[entry["name"]] = entry["value"]
        return {name: value for name, value in variables.items() if name not in OWN}

    def _follow(self, uid: str, backed: Backed, pod: Any) -> None:
        code = backed.process.poll()
        if code is not None:
            self.exits.append((backed.name, code))
            del self.running[uid]
            if pod is not None and "deletionTimestamp" in pod["metadata"]:
                self._remove(backed.name)
            return  # else the next step starts it again, as a kubelet does
        leaving = pod is None or "deletionTimestamp" in pod["metadata"]
        if leaving and backed.told_at is None:
            backed.told_at = time.monotonic()
            backed.process.send_signal(signal.SIGTERM)
        if backed.told_at is not None and time.monotonic() - backed.told_at > backed.grace_s:
            backed.process.kill()
        ready = not leaving and is_ready(backed.port)
        if ready != backed.ready:
            backed.ready = ready
            if pod is not None:
                self._report(backed.name, ready)

    def _report(self, name: str, ready: bool) -> None:
        truth = "True" if ready else "False"
        conditions = [
            {"type": kind, "status": "True" if kind in KINDS[:2] else truth} for kind in KINDS
        ]
        status = {"phase": "Running", "conditions": conditions}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/status"
        self.plane.call("PATCH", path, {"status": status}, MERGE)

    def _remove(self, name: str) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        try:
            self.plane.call("DELETE", path, {"gracePeriodSeconds": 0})
        except HTTPError as error:
            if error.code != 404:
                raise


def is_ready(port: int) -> bool:
    """Whether the worker on this port says that it is."""
    try:
        return bool(http_get(f"127.0.0.1:{port}", "/readyz", ANSWER_S)[0] == 200)
    except ANSWER_ERRORS:
        return False
