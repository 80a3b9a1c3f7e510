"""The objects of a kustomization, and the workloads among them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from worker.config import Config
from worker.config.load import load

FILE = "kustomization.yaml"
# Lists that a patch merges into, and the field by which it recognises an item.
MERGED = {
    "containers": "name", "initContainers": "name", "env": "name", "volumes": "name",
    "volumeMounts": "mountPath", "ports": "containerPort",
}  # fmt: skip
FACTORS = {
    "": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40,
}  # fmt: skip
PASSWORD = "NEWSIFT_KAFKA__PASSWORD"
Object = dict[str, Any]


def at(value: Any, path: str) -> Any:
    """What lies under the names of a path, or None."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def mapping(value: Any, path: str) -> Object:
    result = at(value, path)
    return result if isinstance(result, dict) else {}


def items(value: Any, path: str) -> list[Object]:
    """The mappings of a list."""
    result = at(value, path)
    return [item for item in result if isinstance(item, dict)] if isinstance(result, list) else []


def quantity(value: Any) -> float:
    """A Kubernetes quantity as a number; 0 where it is none."""
    match = re.fullmatch(r"(\d+\.?\d*)([a-zA-Z]*)", str(value))
    return float(match[1]) * FACTORS.get(match[2], 0.0) if match else 0.0


def title(item: Object) -> str:
    return f"{item.get('kind')}/{at(item, 'metadata.name')}"


class UniqueLoader(yaml.SafeLoader):
    """Refuses a key that is there twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len(set(keys)) < len(keys):
            raise yaml.constructor.ConstructorError(problem=f"a key is there twice: {keys}")
        return super().construct_mapping(node, deep)


def merged(old: Any, new: Any, name: str = "") -> Any:
    """A strategic merge: maps key by key, null removes, some lists item by item."""
    if isinstance(old, dict) and isinstance(new, dict):
        both = old | {key: merged(old.get(key), value, key) for key, value in new.items()}
        return {key: value for key, value in both.items() if value is not None}
    key = MERGED.get(name)
    if key is None or not isinstance(old, list) or not isinstance(new, list):
        return new
    changes = {item.get(key): item for item in new}
    present = [merged(item, changes.pop(item.get(key), {})) for item in old]
    return list(changes.values()) + present


@dataclass
class Stack:
    """The objects of a kustomization, the files it read and what is wrong with it."""

    objects: list[Object] = field(default_factory=list)
    recipes: list[Object] = field(default_factory=list)
    files: set[Path] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)

    def build(self, folder: Path) -> "Stack":
        """Add the objects of a folder, as `kubectl kustomize` does."""
        for recipe in self._read(folder / FILE):
            self.recipes.append(recipe)
            for path in (folder / str(entry) for entry in recipe.get("resources") or ()):
                if path.is_dir():
                    self.build(path)
                else:
                    self.objects += self._read(path)
            for each in items(recipe, "patches"):
                for change in self._read(folder / str(each.get("path"))):
                    same = [n for n, o in enumerate(self.objects) if title(o) == title(change)]
                    for number in same:
                        self.objects[number] = merged(self.objects[number], change)
                    if not same:
                        self.faults.append(f"{title(change)}: is patched, and not there")
            for item in self.objects:
                if item.get("kind") != "Namespace" and "namespace" in recipe:
                    item["metadata"] = mapping(item, "metadata") | {
                        "namespace": recipe["namespace"]
                    }
        return self

    def _read(self, file: Path) -> Iterator[Object]:
        self.files.add(file.resolve())
        try:
            documents = list(yaml.load_all(file.read_text("utf-8"), UniqueLoader))
        except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
            self.faults.append(f"{file.name}: cannot be read ({' '.join(str(error).split())})")
            return
        if not documents or not all(isinstance(document, dict) for document in documents):
            self.faults.append(f"{file.name}: is empty, or holds what is not a mapping")
        yield from (document for document in documents if isinstance(document, dict))

    def of(self, kind: str) -> list[Object]:
        return [item for item in self.objects if item.get("kind") == kind]

    @cached_property
    def workloads(self) -> list["Workload"]:
        configs = {str(at(each, "metadata.name")): each for each in self.of("ConfigMap")}
        return [Workload(i, configs) for i in self.of("StatefulSet") + self.of("Deployment")]

    def selected(self, item: Object) -> list["Workload"]:
        """The workloads whose pods a Service, budget, policy or monitor is about."""
        selector = mapping(item, "spec.selector") or mapping(item, "spec.podSelector")
        labels = selector if item.get("kind") == "Service" else mapping(selector, "matchLabels")
        return [each for each in self.workloads if each.has(labels)]


class Workload:
    """A StatefulSet or Deployment of newsift, and the ConfigMaps beside it."""

    def __init__(self, item: Object, configs: dict[str, Object]) -> None:
        self.item, self.configs = item, configs
        self.replicas = mapping(item, "spec").get("replicas", 1)
        self.pod = mapping(item, "spec.template.spec")
        self.main = next(iter(items(self.pod, "containers")), Object())
        words = self.main.get("command") or ["faust", "-A", "worker", "worker"]  # the image's own
        self.command = [*words, *(self.main.get("args") or ())]
        self.is_worker = self.command[:4] == ["faust", "-A", "worker", "worker"] or (
            self.command[:2] == ["newsift", "worker"]
        )
        self.is_collector = self.command[:2] == ["newsift", "collect"] and len(self.command) > 2
        # The environment: values, and None for what is read from elsewhere.
        self.variables = {str(e.get("name")): e.get("value") for e in items(self.main, "env")}
        # The volumes by name; a claim template stands as a claim.
        self.claims = items(item, "spec.volumeClaimTemplates")
        self.volumes = {str(each.get("name")): each for each in items(self.pod, "volumes")} | {
            str(at(claim, "metadata.name")): {"persistentVolumeClaim": {}} for claim in self.claims
        }
        _, volume = self.volume_at(self.variables.get("NEWSIFT_CONFIG"))
        data = mapping(configs.get(str(at(volume, "configMap.name"))), "data")
        text = data.get(Path(str(self.variables.get("NEWSIFT_CONFIG"))).name)
        self.config_text = text if isinstance(text, str) else ""

    def has(self, labels: Object) -> bool:
        own = mapping(self.item, "spec.template.metadata.labels")
        return all(own.get(name) == value for name, value in labels.items())

    @cached_property
    def config(self) -> Config:
        """The configuration that the process sees; raises ConfigError."""
        given = {name: str(value) for name, value in self.variables.items() if value is not None}
        if PASSWORD in self.variables and "SASL" in f"{self.config_text}{given}":
            given[PASSWORD] = "from a Secret"
        with TemporaryDirectory() as folder:
            file = Path(folder) / "config.yaml"
            file.write_text(self.config_text, "utf-8")
            return load(file, given).config

    def port(self, name: Any) -> Any:
        """The number of a port of the container, by name or number."""
        ports = items(self.main, "ports")
        numbers = (p.get("containerPort") for p in ports
                   if name in (p.get("name"), p.get("containerPort")))  # fmt: skip
        return next(numbers, None)

    def volume_at(self, path: Any) -> tuple[Path, Object]:
        """The innermost mount that holds a path, and its volume; empty where there is none."""
        mounts = {Path(str(m.get("mountPath"))): m for m in items(self.main, "volumeMounts")}
        holding = [mount for mount in mounts if Path(str(path)).is_relative_to(mount)]
        mount = max(holding, key=lambda each: len(each.parts), default=Path("/"))
        return mount, self.volumes.get(str(mounts.get(mount, {}).get("name")), {})
