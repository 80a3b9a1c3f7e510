import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree

import pytest

from tests.deploy.manifests import HERE, TREE, faults, main
from tests.deploy.objects import Stack

ROOT = Path(__file__).parents[2]
WORKER, COLLECTOR = "base/worker.yaml", "base/collector.yaml"
CONFIG, MONITOR = "base/config.yaml", "base/pod-monitor.yaml"
POLICIES = "base/network-policies.yaml"
SCALED, GPU = "overlays/keda/scaled-object.yaml", "overlays/gpu/worker.yaml"


@dataclass(frozen=True)
class Mutation:
    """A mistake that a person makes, and the field that the fault's line has to name."""

    file: str
    old: str
    new: str
    field: str

    def __str__(self) -> str:
        return f"{Path(self.file).stem}: {self.field}: {' '.join(self.new.split()) or 'removed'}"

    def apply(self, tree: Path, target: Path) -> Path:
        """A copy of the tree with this mistake."""
        copytree(tree, target)
        file = target / self.file
        text = file.read_text("utf-8")
        assert self.old in text, self
        file.write_text(text.replace(self.old, self.new, 1), "utf-8")
        return target


TLS = "bootstrap_servers: kafka.kafka.svc:9092"
NAME_FIELD = "fieldPath: metadata.name"
CLAIM = """  volumeClaimTemplates:
    - metadata:
        name: cache
      spec:
        accessModes:
          - ReadWriteOnce
        resources:
          requests:
            storage: 1Gi
"""
TMP = "        - name: tmp\n          emptyDir:\n            sizeLimit: 64Mi\n"
CACHE_DIR = "        - name: cache\n          emptyDir: {}\n"
MUTATIONS = (
    Mutation(SCALED, "lagThreshold:", "lagThreshhold:", "lagThreshhold"),
    Mutation(SCALED, "        offsetResetPolicy: earliest\n", "", "offsetResetPolicy"),
    Mutation(SCALED, "newsift-ingest", "newsift", "consumerGroup"),
    Mutation(SCALED, "topic: tweets", "topic: tweet", "topic"),
    Mutation(SCALED, "kafka.kafka.svc:9092", "kafka:9092", "bootstrapServers"),
    Mutation(SCALED, '"5000"', '"5k"', "lagThreshold"),
    Mutation(SCALED, '"5000"', "5000", "lagThreshold"),
    Mutation(SCALED, "maxReplicaCount: 8", "maxReplicaCount: 9", "maxReplicaCount"),
    Mutation(SCALED, "minReplicaCount: 1", "minReplicaCount: 0", "minReplicaCount"),
    Mutation(SCALED, "Seconds: 300", "Seconds: 30", "stabilizationWindowSeconds"),
    Mutation(SCALED, "kind: StatefulSet", "kind: Deployment", "scaleTargetRef"),
    Mutation(SCALED, "maxReplicaCount:", "maxReplicas:", "maxReplicas"),
    Mutation("overlays/keda/worker.yaml", "replicas: null", "replicas: 2", "replicas"),
    Mutation("overlays/keda/worker.yaml", "newsift-worker", "worker", "StatefulSet/worker"),
    Mutation("overlays/keda/kustomization.yaml", "  - scaled-object.yaml\n", "", "ScaledObject"),
    Mutation("base/kustomization.yaml", "  - pod-monitor.yaml\n", "", "PodMonitor"),
    Mutation("base/kustomization.yaml", "resources:", "resource:", "resource"),
    Mutation("base/namespace.yaml", "enforce: restricted", "enforce: baseline", "enforce"),
    Mutation(WORKER, "PeriodSeconds: 30", "PeriodSeconds: 12", "terminationGracePeriodSeconds"),
    Mutation(CONFIG, "shutdown_s: 10", "shutdown_s: 60", "terminationGracePeriodSeconds"),
    Mutation(WORKER, "livenessProbe:", "livenesProbe:", "livenesProbe"),
    Mutation(WORKER, "path: /readyz", "path: /healthz", "readinessProbe"),
    Mutation(WORKER, "path: /healthz", "path: /health", "startupProbe"),
    Mutation(WORKER, "containerPort: 6066", "containerPort: 8080", "port"),
    Mutation(
        WORKER, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "readOnlyRoot"
    ),
    Mutation(WORKER, "        runAsNonRoot: true\n", "", "runAsNonRoot"),
    Mutation(WORKER, "Escalation: false", "Escalation: true", "allowPrivilegeEscalation"),
    Mutation(WORKER, "                - ALL\n", "                - NET_RAW\n", "capabilities"),
    Mutation(WORKER, "              memory: 1536Mi\n", "", "limits.memory"),
    Mutation(WORKER, "memory: 1Gi", "memory: 2Gi", "requests.memory"),
    Mutation(WORKER, "runAsGroup: 10001", "runAsGroup: 0", "runAsGroup"),
    Mutation(WORKER, "newsift/compiled", "newsift", "cache"),
    Mutation(WORKER, TMP, f"{TMP}{CACHE_DIR}", "there twice"),
    Mutation(
        WORKER,
        "- name: cache\n              mountPath: /var",
        "- name: tmp\n              mountPath: /var",
        "emptyDir",
    ),
    Mutation(WORKER, CLAIM, "", "cache"),
    Mutation(WORKER, "/claim/compiled", "/claim/compild", "compiled"),
    Mutation(WORKER, "storage: 1Gi", "storage: 1Mi", "storage"),
    Mutation(WORKER, "name: newsift-kafka", "name: newsift-kafak", "valueFrom"),
    Mutation(WORKER, "key: password", "key: pasword", "valueFrom"),
    Mutation(WORKER, "optional: true", "optional: false", "valueFrom"),
    Mutation(WORKER, "OnRootMismatch", "Always", "fsGroupChangePolicy"),
    Mutation(WORKER, "newsift:0.1.0-cpu", "newsift:latest", "image"),
    Mutation(WORKER, "newsift:0.1.0-cpu", "newsift", "image"),
    Mutation(WORKER, NAME_FIELD, "fieldPath: metadata.uid", "NEWSIFT_KAFKA__INSTANCE_ID"),
    Mutation(WORKER, "KAFKA__INSTANCE_ID", "KAFKA_INSTANCE_ID", "NEWSIFT_KAFKA_INSTANCE_ID"),
    Mutation(WORKER, "enableServiceLinks: false", "enableServiceLinks: true", "enableServiceLinks"),
    Mutation(WORKER, "replicas: 2", "replicas: 12", "replicas"),
    Mutation(WORKER, "serviceName: newsift-worker", "serviceName: worker", "serviceName"),
    Mutation(WORKER, "clusterIP: None", "clusterIP: ''", "clusterIP"),
    Mutation(WORKER, "maxUnavailable: 1", "maxUnavailable: 0", "PodDisruptionBudget"),
    Mutation(COLLECTOR, "replicas: 1", "replicas: 2", "replicas"),
    Mutation(COLLECTOR, "- bluesky", "- blueskies", "command"),
    Mutation(COLLECTOR, "whenDeleted: Retain", "whenDeleted: Delete", "RetentionPolicy"),
    Mutation(COLLECTOR, "whenDeleted: Retain", "whenDeleted: Retian", "RetentionPolicy"),
    Mutation(COLLECTOR, "mountPath: /var/lib/newsift", "mountPath: /var/lib/state", "state"),
    Mutation(CONFIG, "partitions: 8", "partitions: 6", "maxReplicaCount"),
    Mutation(CONFIG, "partitions:", "partition:", "topics.partition"),
    Mutation(CONFIG, "host: 0.0.0.0", "host: 127.0.0.1", "web.host"),
    Mutation(CONFIG, TLS, f"{TLS}\n      security_protocol: SSL", "tls"),
    Mutation(CONFIG, TLS, TLS.replace("9092", "9093"), "NetworkPolicy"),
    Mutation(CONFIG, TLS, f"{TLS}\n      group: filter", "consumerGroup"),
    Mutation(CONFIG, TLS, f"{TLS}\n      password: secret", "password"),
    Mutation(POLICIES, "port: 6066", "port: 6067", "NetworkPolicy"),
    Mutation(POLICIES, "kubernetes.io/metadata.name", "kubernetes.io/name", "namespaceSelector"),
    Mutation(POLICIES, "cidr: 0.0.0.0/0", "cidr: 0.0.0.0/33", "cidr"),
    Mutation(
        POLICIES, "name: newsift\n  policyTypes", "name: sift\n  policyTypes", "NetworkPolicy"
    ),
    Mutation(MONITOR, "port: web", "port: metrics", "port"),
    Mutation(MONITOR, "name: newsift\n  podMetrics", "name: sift\n  podMetrics", "PodMonitor"),
    Mutation(GPU, '              nvidia.com/gpu: "1"\n', "", "nvidia.com/gpu"),
    Mutation(GPU, 'nvidia.com/gpu: "1"', 'nvidia.com/gpu: "0.5"', "nvidia.com/gpu"),
    Mutation(GPU, "0.1.0-cuda\n          env", "0.1.0-cpu\n          env", "image"),
)


def test_the_manifests_have_no_fault_together_or_alone() -> None:
    assert faults(HERE) == []
    assert main([]) == 0
    assert [main([str(HERE / name)]) for name in TREE] == [0, 0, 0]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=str)
def test_a_mistake_is_found(mutation: Mutation, tmp_path: Path) -> None:
    lines = faults(mutation.apply(HERE, tmp_path / "tree"))
    assert any(mutation.field in line for line in lines), lines


@pytest.mark.parametrize("text", ["a: [", "a: 1\na: 2\n", "- 1\n", "kind: {}\n", ""])
def test_a_file_that_cannot_be_read_is_a_fault(text: str, tmp_path: Path) -> None:
    tree = Mutation("base/worker.yaml", "", "", "").apply(HERE, tmp_path / "tree")
    (tree / "base" / "worker.yaml").write_text(text, "utf-8")
    assert faults(tree)


def test_a_file_that_nothing_names_and_an_empty_folder_are_faults(tmp_path: Path) -> None:
    assert faults(tmp_path)
    tree = Mutation("base/worker.yaml", "", "", "").apply(HERE, tmp_path / "tree")
    (tree / "base" / "more.yaml").write_text("kind: Service\n", "utf-8")
    assert faults(tree) == ["is part of no kustomization (base/more.yaml)"]


def test_the_command_prints_a_line_for_each_fault_and_exits_with_1(tmp_path: Path) -> None:
    tree = MUTATIONS[0].apply(HERE, tmp_path / "tree")
    command = [sys.executable, "-m", "tests.deploy.manifests", str(tree)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == len(faults(tree)) == 2
    assert not done.stderr


def test_the_images_have_the_version_of_the_code() -> None:
    stacks = [Stack().build(HERE / name) for name in ("overlays/keda", "overlays/gpu")]
    images = {work.main["image"] for stack in stacks for work in stack.workloads}
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert images == {f"newsift:{version}-cpu", f"newsift:{version}-cuda"}
