"""A Kubernetes control plane on this machine: it decides, and has no machine that runs a pod."""

import json
import secrets
import ssl
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from tests.broker.kafka import free_ports, tool
from tests.deploy.cluster.go import module

STARTS_WITHIN_S = 90
STOPS_WITHIN_S = 15
ANSWERS_WITHIN_S = 15
STAGES = ("fast/node-initialize.yaml", "heartbeat-with-lease/node-heartbeat-with-lease.yaml")
MERGE = "application/merge-patch+json"


class ControlPlane:
    """etcd and the API server; the others on demand. `stop` ends them all."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self._folder, self._programs = folder, programs
        self._processes: list[subprocess.Popen[bytes]] = []
        self._token = secrets.token_hex(16)
        etcd, peer, api, self._manager_port, self._scheduler_port = free_ports(5)
        self._etcd, self._peer = f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{peer}"
        self._port = api
        self.kubeconfig = folder / "kubeconfig"
        self._tls = ssl.create_default_context()
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE

    def start(self) -> None:
        """Start etcd and the API server, and wait until it answers."""
        key = self._folder / "service-account.pem"
        subprocess.run(
            [tool("openssl"), "genpkey", "-algorithm", "RSA", "-out", str(key)],
            check=True, capture_output=True,
        )  # fmt: skip
        tokens = self._folder / "tokens.csv"
        tokens.write_text(f"{self._token},admin,admin,system:masters\n", "ascii")
        self.kubeconfig.write_text(json.dumps(self._client()), "utf-8")
        self.run(
            "etcd", f"--data-dir={self._folder}/etcd", f"--listen-client-urls={self._etcd}",
            f"--advertise-client-urls={self._etcd}", f"--listen-peer-urls={self._peer}",
            f"--initial-advertise-peer-urls={self._peer}",
            f"--initial-cluster=default={self._peer}",
            "--unsafe-no-fsync",
        )  # fmt: skip
        self.run(
            "kube-apiserver", f"--etcd-servers={self._etcd}", f"--secure-port={self._port}",
            "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none", f"--cert-dir={self._folder}/certificates",
            f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={tokens}", "--authorization-mode=AlwaysAllow",
            "--service-cluster-ip-range=10.0.0.0/24",
        )  # fmt: skip
        deadline = time.monotonic() + STARTS_WITHIN_S
        while not self._answers():
            if time.monotonic() > deadline:
                raise RuntimeError(f"the API server did not start:\n{self.log('kube-apiserver')}")
            time.sleep(0.2)

    def start_controllers(self, hpa_period_s: float) -> None:
        """Start what makes pods of StatefulSets, counts their number and places them on nodes."""
        kubeconfig = f"--kubeconfig={self.kubeconfig}"
        self.run(
            "kube-controller-manager", kubeconfig, "--leader-elect=false",
            f"--secure-port={self._manager_port}", f"--cert-dir={self._folder}/manager",
            f"--horizontal-pod-autoscaler-sync-period={hpa_period_s:g}s",
            f"--service-account-private-key-file={self._folder}/service-account.pem",
        )  # fmt: skip
        self.run(
            "kube-scheduler", kubeconfig, "--leader-elect=false",
            f"--secure-port={self._scheduler_port}", f"--cert-dir={self._folder}/scheduler",
        )  # fmt: skip
        stages = module("sigs.k8s.io/kwok") / "kustomize/stage/node"
        configs = [word for stage in STAGES for word in ("--config", str(stages / stage))]
        self.run("kwok", kubeconfig, "--manage-all-nodes", *configs)

    def run(self, name: str, *arguments: str, stdout: Path | None = None) -> None:
        """Start a program; `stop` ends it."""
        log = (self._folder / f"{name}.log").open("ab")
        with log, (stdout or Path("/dev/null")).open("wb") as out:
            process = subprocess.Popen(
                [str(self._programs / name), *arguments],
                cwd=self._folder, stdin=subprocess.DEVNULL, stdout=out if stdout else log,
                stderr=log,
            )  # fmt: skip
        self._processes.append(process)

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOPS_WITHIN_S)
            process.kill()
            process.wait()

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text("utf-8", "replace")[-3000:]

    def kubectl(
        self, *arguments: str, stdin: str | None = None
    ) -> "subprocess.CompletedProcess[str]":
        command = [str(self._programs / "kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)

    def apply(self, objects: Sequence[Any], *options: str) -> str:
        """Apply objects as kubectl does; returns why they are refused, or nothing."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        done = self.kubectl(
            "apply", "--server-side", "--validate=strict", *options, "-f", "-", stdin=text
        )
        return done.stderr if done.returncode else ""

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """One request to the API; raises HTTPError where it is refused."""
        request = Request(
            f"https://127.0.0.1:{self._port}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": kind},
            method=method,
        )
        with urlopen(request, timeout=ANSWERS_WITHIN_S, context=self._tls) as answer:
            return json.load(answer)

    def _answers(self) -> bool:
        try:
            self.call("GET", "/api/v1/namespaces/default")
        except (HTTPError, URLError, OSError):
            return False
        return True

    def _client(self) -> dict[str, Any]:
        server = {"server": f"https://127.0.0.1:{self._port}", "insecure-skip-tls-verify": True}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": server}],
            "users": [{"name": "test", "user": {"token": self._token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
