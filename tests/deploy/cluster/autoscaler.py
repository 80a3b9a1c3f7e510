"""KEDA on a control plane of this machine: its operator and its metrics adapter."""

import shutil
from pathlib import Path

from tests.broker.kafka import free_ports
from tests.broker.secure import certify
from tests.deploy.cluster.control_plane import ControlPlane
from tests.deploy.cluster.go import module
from tests.deploy.kustomize import Object

NAMESPACE = "keda"
GROUP, VERSION = "external.metrics.k8s.io", "v1beta1"


def start_keda(plane: ControlPlane, folder: Path) -> None:
    """Start KEDA, which reads ScaledObjects and serves their metrics to the autoscaler."""
    done = plane.kubectl(
        "apply", "--server-side", "--force-conflicts",
        "-k", str(module("github.com/kedacore/keda/v2") / "config/crd"),
    )  # fmt: skip
    folder.mkdir()
    certify(folder, "ca", "basicConstraints=critical,CA:TRUE", by=None)
    certify(folder, "tls", "subjectAltName=DNS:localhost", by="ca")
    for name in ("ca", "tls"):
        shutil.copyfile(folder / f"{name}.pem", folder / f"{name}.crt")
    metrics, health, values, serving, own = free_ports(5)
    refusal = done.stderr * bool(done.returncode) or plane.apply(metrics_service(serving))
    if refusal:
        raise RuntimeError(refusal)
    variables = {
        "KUBECONFIG": str(plane.kubeconfig), "WATCH_NAMESPACE": "",
        "POD_NAMESPACE": NAMESPACE, "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE,
    }  # fmt: skip
    plane.run(
        "keda-operator", f"--metrics-bind-address=127.0.0.1:{metrics}",
        f"--health-probe-bind-address=127.0.0.1:{health}", f"--cert-dir={folder}",
        f"--metrics-service-bind-address=localhost:{values}", **variables,
    )  # fmt: skip
    plane.run(
        "keda-adapter", f"--secure-port={serving}", "--bind-address=127.0.0.1", f"--port={own}",
        f"--cert-dir={folder}", f"--tls-cert-file={folder}/tls.crt",
        f"--tls-private-key-file={folder}/tls.key",
        f"--metrics-service-address=localhost:{values}",
        f"--lister-kubeconfig={plane.kubeconfig}",
        f"--authentication-kubeconfig={plane.kubeconfig}",
        f"--authorization-kubeconfig={plane.kubeconfig}",
        "--authentication-skip-lookup=true", **variables,
    )  # fmt: skip


def metrics_service(port: int) -> list[Object]:
    """What makes the adapter on this port the cluster's source of external metrics."""
    place = {"namespace": NAMESPACE, "name": "keda-adapter"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "v1", "kind": "Service", "metadata": place,
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": f"{VERSION}.{GROUP}"},
            "spec": {
                "group": GROUP, "version": VERSION, "service": place | {"port": port},
                "insecureSkipTLSVerify": True, "groupPriorityMinimum": 100, "versionPriority": 100,
            },
        },
    ]  # fmt: skip
