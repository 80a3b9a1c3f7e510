"""What `kubectl kustomize` makes of a folder, as far as our manifests use it.

Read are resources, namespace and patches, the latter as strategic merges. Whatever else a
kustomization holds is a fault, so that nothing is passed over in silence.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

NAME = "kustomization.yaml"
KEYS = {"apiVersion", "kind", "namespace", "resources", "patches"}
CLUSTER_WIDE = {"Namespace"}
# Lists that a patch merges into, and the field by which it recognises an item.
MERGED = {
    "containers": "name", "initContainers": "name", "env": "name", "volumes": "name",
    "volumeMounts": "mountPath", "ports": "containerPort",
}  # fmt: skip
Object = dict[str, Any]


class UniqueLoader(yaml.SafeLoader):
    """Refuses a key that is there twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key, (position, _) in zip(keys, node.value, strict=True):
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key!r} is there twice", position.start_mark
                )
        return super().construct_mapping(node, deep)


@dataclass
class Build:
    """The objects of a kustomization, the files it read and what is wrong with it."""

    objects: list[Object] = field(default_factory=list)
    files: set[Path] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)


def read_documents(file: Path, build: Build) -> list[Object]:
    build.files.add(file.resolve())
    try:
        documents = list(yaml.load_all(file.read_text("utf-8"), UniqueLoader))
    except OSError as error:
        build.faults.append(f"{file.name}: cannot be read ({error.strerror})")
        return []
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        build.faults.append(f"{file.name}{line}: {getattr(error, 'problem', None) or error}")
        return []
    objects = [document for document in documents if document is not None]
    for document in objects:
        if not isinstance(document, dict):
            build.faults.append(f"{file.name}: holds what is not a mapping")
    return [document for document in objects if isinstance(document, dict)]


def build(folder: Path) -> Build:
    """The objects of this folder's kustomization."""
    result = Build()
    for recipe in read_documents(folder / NAME, result):
        result.faults += [f"{NAME}: {key} is not read here" for key in recipe if key not in KEYS]
        if recipe.get("kind") != "Kustomization":
            result.faults.append(f"{NAME}: kind: is not Kustomization")
        for entry in recipe.get("resources") or ():
            _add(folder / str(entry), result)
        for patch in recipe.get("patches") or ():
            _patch(folder, patch, result)
        if namespace := recipe.get("namespace"):
            for each in result.objects:
                if identity(each)[1] not in CLUSTER_WIDE and isinstance(each.get("metadata"), dict):
                    each["metadata"]["namespace"] = namespace
    return result


def _add(path: Path, result: Build) -> None:
    if path.is_dir():
        inner = build(path)
        result.objects += inner.objects
        result.files |= inner.files
        result.faults += inner.faults
    else:
        result.objects += read_documents(path, result)


def _patch(folder: Path, patch: Any, result: Build) -> None:
    if not isinstance(patch, dict) or set(patch) != {"path"}:
        result.faults.append(f"{NAME}: patches: only `path` is read here")
        return
    for change in read_documents(folder / str(patch["path"]), result):
        same = [each for each in result.objects if identity(each) == identity(change)]
        if not same:
            result.faults.append(f"{patch['path']}: patches {title(change)}, which is not there")
        for each in same:
            each.update(merged(each, change))


def identity(item: Object) -> tuple[str, str, str]:
    facts = item.get("metadata")
    name = facts.get("name") if isinstance(facts, dict) else None
    return str(item.get("apiVersion")), str(item.get("kind")), str(name)


def title(item: Object) -> str:
    _, kind, name = identity(item)
    return f"{kind}/{name}"


def merged(old: Any, new: Any, name: str = "") -> Any:
    """A strategic merge: maps key by key, null removes, some lists item by item."""
    if isinstance(old, dict) and isinstance(new, dict):
        result = dict(old)
        for key, value in new.items():
            if value is None:
                result.pop(key, None)
            else:
                result[key] = merged(old.get(key), value, key)
        return result
    key = MERGED.get(name)
    if key is None or not isinstance(old, list) or not isinstance(new, list):
        return new
    changes = {item.get(key): item for item in new}
    present = [merged(item, changes.pop(item.get(key), {})) for item in old]
    return list(changes.values()) + present  # new items come first, as with kubectl


def kustomizations(root: Path) -> Iterator[Path]:
    """The folders under this one, itself included, that hold a kustomization."""
    yield from sorted(file.parent for file in root.rglob(NAME))
