"""The fields of the kinds of objects that manifests use, in fields.json.

A type is the name of a scalar, `#Name` for another type of the file, [type] for a list, {"*": type}
for a map, and otherwise a map from field to type. `python -m tests.deploy.fields` writes the file
from the API that is pinned in tests/deploy/cluster/go.py.
"""

import json
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("fields.json")
SCALARS: dict[str, tuple[type, ...]] = {
    "string": (str,), "boolean": (bool,), "integer": (int,), "number": (int, float),
    "scalar": (str, int, float),
}  # fmt: skip
KINDS = (
    "v1/ConfigMap", "v1/Namespace", "v1/PersistentVolumeClaim", "v1/Secret", "v1/Service",
    "v1/ServiceAccount", "apps/v1/Deployment", "apps/v1/StatefulSet",
    "networking.k8s.io/v1/NetworkPolicy", "policy/v1/PodDisruptionBudget",
)  # fmt: skip
UNION = ("Quantity", "IntOrString")
SKIPPED = {"status", "managedFields"}
# Volumes of one vendor, most of which are gone.
RARE = (
    "awsElastic", "azure", "cephfs", "cinder", "fc", "flex", "flocker", "gce", "gitRepo", "gluster",
    "iscsi", "photon", "portworx", "quobyte", "rbd", "scaleIO", "storageos", "vsphere",
)  # fmt: skip


@cache
def read_fields() -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return fields


def field_faults(value: Any, kind: Any, types: dict[str, Any], path: str = "") -> Iterator[str]:
    """Fields of the value that its type does not have, and values of another type."""
    if isinstance(kind, str) and kind.startswith("#"):
        kind = types[kind.removeprefix("#")]
    if value is None or kind == "any":
        return
    if isinstance(kind, str):
        if not isinstance(value, SCALARS[kind]) or (isinstance(value, bool) and kind != "boolean"):
            yield f"{path}: {value!r} is not {kind}"
    elif not isinstance(value, type(kind)):
        yield f"{path}: is not {'list' if isinstance(kind, list) else 'mapping'}"
    elif isinstance(kind, list):
        for number, item in enumerate(value):
            yield from field_faults(item, kind[0], types, f"{path}[{number}]")
    else:
        for name, item in value.items():
            inner = f"{path}.{name}" if path else str(name)
            if name in kind or "*" in kind:
                yield from field_faults(item, kind.get(name, kind.get("*")), types, inner)
            else:
                close = get_close_matches(str(name), kind, n=1)
                yield f"{inner}: unknown field" + (f"; did you mean {close[0]}?" if close else "")


def convert(schema: dict[str, Any], refer: Callable[[str], Any]) -> Any:
    """The type of a schema of OpenAPI; `refer` gives that of a definition."""
    if schema.get("x-kubernetes-int-or-string"):
        return "scalar"
    if "$ref" in schema:
        return refer(schema["$ref"].rpartition("/")[2])
    if "properties" in schema:
        return {
            name: convert(inner, refer) for name, inner in schema["properties"].items()
            if name not in SKIPPED and not name.startswith(RARE)
        }  # fmt: skip
    if schema.get("type") == "array":
        return [convert(schema["items"], refer)]
    if isinstance(schema.get("additionalProperties"), dict):
        return {"*": convert(schema["additionalProperties"], refer)}
    return "any" if schema.get("type", "object") == "object" else schema["type"]


def from_openapi(definitions: dict[str, Any]) -> dict[str, Any]:
    """The types that the KINDS lead to."""
    types: dict[str, Any] = {}

    def refer(full: str) -> Any:
        name = full.rpartition(".")[2]
        if name in UNION:
            return "scalar"
        if name not in types:
            types[name] = None  # a type may lead to itself
            types[name] = convert(definitions[full], refer)
        return types[name] if isinstance(types[name], str) else f"#{name}"

    for full, schema in definitions.items():
        for entry in schema.get("x-kubernetes-group-version-kind", ()):
            kind = "/".join(filter(None, (entry["group"], entry["version"], entry["kind"])))
            if kind in KINDS:
                types[kind] = refer(full)
    return {name: kind for name, kind in types.items() if "/" in name or not isinstance(kind, str)}


def main() -> None:
    from tests.deploy.cluster.go import custom_definitions, module

    document = module("k8s.io/kubernetes") / "api/openapi-spec/swagger.json"
    types = from_openapi(json.loads(document.read_text("utf-8"))["definitions"])
    for file in custom_definitions():
        spec = yaml.safe_load(file.read_text("utf-8"))["spec"]
        for version in spec["versions"]:
            own = convert(version["schema"]["openAPIV3Schema"], str)
            name = f"{spec['group']}/{version['name']}/{spec['names']['kind']}"
            types[name] = {**own, "metadata": "#ObjectMeta"}
    rows = (f"{json.dumps(name)}: {json.dumps(types[name])}" for name in sorted(types))
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
