"""Whether an API server takes the manifests, and who refuses the mistakes."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.cluster.control_plane import ControlPlane
from tests.deploy.cluster.go import custom_definitions
from tests.deploy.kustomize import Object, build, identity, title
from tests.deploy.manifests import HERE, TREE, faults
from tests.deploy.mutations import MUTATIONS

DRY = "--dry-run=server"
NAMESPACE = "newsift"


def prepare(plane: ControlPlane) -> None:
    """What the manifests need beforehand: the kinds of KEDA and Prometheus, and the namespace."""
    kinds = [yaml.safe_load(file.read_text("utf-8")) for file in custom_definitions()]
    refusal = plane.apply(kinds)
    names = [kind["metadata"]["name"] for kind in kinds]
    waiting = [f"crd/{name}" for name in names]
    done = plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", *waiting)
    space = [item for item in build(HERE / "base").objects if item["kind"] == "Namespace"]
    refusal = refusal or done.stderr or plane.apply(space)
    if refusal:
        raise RuntimeError(refusal)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    account["metadata"]["namespace"] = NAMESPACE  # type: ignore[index]
    plane.apply([account])


def kustomized(plane: ControlPlane, folder: Path) -> list[Object] | str:
    """The objects that kubectl makes of a folder, or why it refuses."""
    done = plane.kubectl("kustomize", str(folder))
    if done.returncode:
        return done.stderr
    return [item for item in yaml.safe_load_all(done.stdout) if item]


def pods_of(objects: list[Object]) -> Iterator[Object]:
    """A pod of each StatefulSet: the server judges rights when a pod is made, not before."""
    for item in objects:
        if item.get("kind") == "StatefulSet":
            spec = dict(item["spec"]["template"]["spec"])
            spec["volumes"] = [*(spec.get("volumes") or ()), *claimed(item)]
            name = item["metadata"]["name"]
            facts = {"name": f"{name}-0", "namespace": NAMESPACE}
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": facts, "spec": spec}


def claimed(item: Object) -> Iterator[Object]:
    for template in item["spec"].get("volumeClaimTemplates") or ():
        name = template["metadata"]["name"]
        claim = {"claimName": f"{name}-{item['metadata']['name']}-0"}
        yield {"name": name, "persistentVolumeClaim": claim}


def refusal(plane: ControlPlane, folder: Path) -> str:
    """Why kubectl or the API server refuses a kustomization; nothing if they take it."""
    objects = kustomized(plane, folder)
    if isinstance(objects, str):
        return objects
    return plane.apply([*objects, *pods_of(objects)], DRY)


def check_manifests(plane: ControlPlane) -> list[str]:
    """Print a line for each kustomization; returns what the API server refuses."""
    prepare(plane)
    failures = []
    for name in TREE:
        why = refusal(plane, HERE / name) or differs(plane, HERE / name)
        objects = build(HERE / name).objects
        show(f"{name}: {len(objects)} objects, {'refused' if why else 'taken'} by the API server")
        failures += [f"{name}: {why}"] if why else []
    why = plane.apply([alerts()], DRY)
    show(f"the alert rules: {'refused' if why else 'taken'} by the API server")
    return failures + [f"the alert rules: {why}"] * bool(why)


def check_mutations(plane: ControlPlane) -> list[str]:
    """Print by whom each mistake is refused; returns those that pass."""
    failures = []
    by_check = by_server = 0
    for mutation in MUTATIONS:
        overlay = "gpu" if mutation.file.startswith("overlays/gpu") else "keda"
        with tempfile.TemporaryDirectory() as folder:
            tree = mutation.apply(HERE, Path(folder) / "tree")
            check = bool(faults(tree))
            server = bool(refusal(plane, tree / "overlays" / overlay))
        by_check, by_server = by_check + check, by_server + server
        who = ", ".join(["check"] * check + ["API server"] * server) or "nobody"
        show(f"  {mutation}: {who}")
        if not check or (mutation.server and not server):
            failures.append(f"{mutation}: refused by {who}")
    total = len(MUTATIONS)
    show(f"{total} mistakes, {by_check} refused by the check, {by_server} by the API server")
    return failures


def alerts() -> Object:
    """The alert rules as docs/operating.md gives them to the Prometheus operator."""
    rules = HERE.parent / "prometheus" / "rules.yml"
    return {
        "apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
        "metadata": {"name": "newsift", "namespace": NAMESPACE},
        "spec": yaml.safe_load(rules.read_text("utf-8")),
    }  # fmt: skip


def differs(plane: ControlPlane, folder: Path) -> str:
    """Whether our reading of a kustomization is another than kubectl's."""

    def sorted_objects(objects: Any) -> list[Object]:
        return sorted(objects, key=identity)

    theirs, ours = kustomized(plane, folder), build(folder).objects
    if isinstance(theirs, str):
        return theirs
    pairs = zip(sorted_objects(theirs), sorted_objects(ours), strict=True)
    return ", ".join(title(one) for one, other in pairs if one != other)


def show(line: str) -> None:
    print(line, flush=True, file=sys.stdout)  # noqa: T201
