"""Rules for one pod: rights, probes, resources, environment and volumes."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from newsift.cli.collect import collect
from tests.deploy.kustomize import Object, title
from worker.config import KEYS, Config
from worker.config.load import load
from worker.errors import ConfigError
from worker.process.command import SHUTDOWN_SLACK_S

WORKER = (["faust", "-A", "worker", "worker"], ["newsift", "worker"])
INSTANCE = "NEWSIFT_KAFKA__INSTANCE_ID"
SHORT = "NEWSIFT_KAFKA"
PASSWORD = "NEWSIFT_KAFKA__PASSWORD"
# Variables that are not keys of config.yaml.
VARIABLES = {
    SHORT, "NEWSIFT_CONFIG", "NEWSIFT_CACHE", "NEWSIFT_STATE", "NEWSIFT_DEBUG",
    "NEWSIFT_MASTODON_TOKEN", "NEWSIFT_X_TOKEN", "NEWSIFT_WEBHOOK_SECRET",
}  # fmt: skip
SECRET = re.compile(r"PASSWORD|TOKEN|SECRET")
PROBES = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
# The volumes that PodSecurity `restricted` allows.
ALLOWED = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim",
    "projected", "secret",
}  # fmt: skip
LASTING = {"persistentVolumeClaim", "ephemeral", "csi"}
WORKLOADS = ("StatefulSet", "Deployment")
FACTORS = {
    "": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40,
}  # fmt: skip
QUANTITY = re.compile(r"([0-9.]+)([a-zA-Z]*)")
SECCOMP = {"type": "RuntimeDefault"}
GPU = "nvidia.com/gpu"


def inside(value: Any, *names: str) -> Any:
    """What lies under these names, or None where there is nothing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def mapping(value: Any, *names: str) -> Object:
    result = inside(value, *names)
    return result if isinstance(result, dict) else {}


def items(value: Any, *names: str) -> list[Object]:
    """The mappings of a list."""
    result = inside(value, *names)
    return [item for item in result if isinstance(item, dict)] if isinstance(result, list) else []


def quantity(value: Any) -> float | None:
    """A Kubernetes quantity as a number; None where it is none."""
    match = QUANTITY.fullmatch(str(value))
    try:
        return float(match[1]) * FACTORS[match[2]] if match else None
    except (ValueError, KeyError):
        return None


@dataclass(frozen=True)
class Workload:
    """A StatefulSet or Deployment of newsift, and the ConfigMaps beside it."""

    item: Object
    configs: Mapping[str, Object]  # ConfigMaps by name

    @property
    def title(self) -> str:
        return title(self.item)

    @property
    def name(self) -> str:
        return str(inside(self.item, "metadata", "name"))

    @property
    def labels(self) -> Object:
        return mapping(self.item, "spec", "template", "metadata", "labels")

    @property
    def pod(self) -> Object:
        return mapping(self.item, "spec", "template", "spec")

    @property
    def containers(self) -> list[Object]:
        return items(self.pod, "containers")

    @property
    def boxes(self) -> list[Object]:
        """All containers, those that run before the others included."""
        return [*items(self.pod, "initContainers"), *self.containers]

    @property
    def main(self) -> Object:
        return self.containers[0] if self.containers else {}

    @cached_property
    def command(self) -> list[str]:
        """What runs; the image's own entry point starts a worker."""
        command, words = self.main.get("command") or WORKER[0], self.main.get("args") or []
        lists = [part for part in (command, words) if isinstance(part, list)]
        return [str(word) for part in lists for word in part]

    @property
    def is_worker(self) -> bool:
        return any(self.command[: len(words)] == words for words in WORKER)

    @property
    def is_collector(self) -> bool:
        return self.command[:2] == ["newsift", "collect"]

    @cached_property
    def variables(self) -> dict[str, Any]:
        """The environment: values, and None for what is read from elsewhere."""
        return {str(entry.get("name")): entry.get("value") for entry in items(self.main, "env")}

    @cached_property
    def config_text(self) -> str | None:
        """The file that NEWSIFT_CONFIG names, out of its ConfigMap."""
        path = Path(str(self.variables.get("NEWSIFT_CONFIG")))
        for mount in items(self.main, "volumeMounts"):
            if Path(str(mount.get("mountPath"))) == path.parent:
                volume = self.volumes.get(str(mount.get("name")), {})
                name = str(inside(volume, "configMap", "name"))
                text = inside(self.configs.get(name), "data", path.name)
                return text if isinstance(text, str) else None
        return None

    @cached_property
    def config(self) -> Config:
        """The configuration that the process sees; raises ConfigError."""
        given = {name: str(value) for name, value in self.variables.items() if value is not None}
        if PASSWORD in self.variables and "SASL" in f"{self.config_text}{given}":
            given[PASSWORD] = "from a Secret"
        with TemporaryDirectory() as folder:
            file = Path(folder) / "config.yaml"
            file.write_text(self.config_text or "", "utf-8")
            try:
                return load(file, given).config
            except ConfigError as error:
                raise ConfigError(str(error).replace(f"{folder}/", "")) from error

    @cached_property
    def volumes(self) -> dict[str, Object]:
        """The volumes by name; a claim template stands as a claim."""
        templates = items(self.item, "spec", "volumeClaimTemplates")
        claims: dict[str, Object] = {
            str(inside(each, "metadata", "name")): {"persistentVolumeClaim": {}}
            for each in templates
        }
        return {str(each.get("name")): each for each in items(self.pod, "volumes")} | claims

    def port(self, name: Any) -> int | None:
        """The number of a port of the container, by name or number."""
        for each in items(self.main, "ports"):
            if name in (each.get("name"), each.get("containerPort")):
                number = each.get("containerPort")
                return number if isinstance(number, int) else None
        return None

    def volume_at(self, path: Any) -> tuple[Path, Object] | None:
        """The innermost mount that holds a path, and its volume."""
        mounts = [
            (Path(str(mount.get("mountPath"))), self.volumes.get(str(mount.get("name")), {}))
            for mount in items(self.main, "volumeMounts")
        ]
        holding = [each for each in mounts if Path(str(path)).is_relative_to(each[0])]
        return max(holding, key=lambda each: len(each[0].parts)) if holding else None


def check_command(work: Workload) -> Iterator[str]:
    if len(work.containers) != 1:
        yield f"has {len(work.containers)} containers, and one is expected"
    if work.is_collector:
        if len(work.command) < 3 or work.command[2] not in collect.commands:
            sources = ", ".join(collect.commands)
            yield f"command: {' '.join(work.command)} is not a source; take one of {sources}"
    elif not work.is_worker:
        yield f"command: {' '.join(work.command)} is neither a worker nor a collector"


def check_rights(work: Workload) -> Iterator[str]:
    """PodSecurity `restricted`, a read-only root, no token and no variables of services."""
    for name in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"):
        if work.pod.get(name):
            yield f"{name}: must not be set"
    for name in ("automountServiceAccountToken", "enableServiceLinks"):
        if work.pod.get(name) is not False:
            yield f"{name}: must be false"
    for box in work.boxes:
        where = f"container {box.get('name')}: securityContext"
        own = mapping(box, "securityContext")
        both = mapping(work.pod, "securityContext") | own
        expected = {
            "runAsNonRoot: must be true": both.get("runAsNonRoot") is True,
            "runAsUser: must be a user other than root": both.get("runAsUser") not in (None, 0),
            "allowPrivilegeEscalation: must be false": own.get("allowPrivilegeEscalation") is False,
            "readOnlyRootFilesystem: must be true": own.get("readOnlyRootFilesystem") is True,
            "privileged: must not be set": not own.get("privileged"),
            "capabilities: must drop ALL and add none": own.get("capabilities")
            == {"drop": ["ALL"]},
            "seccompProfile: must be RuntimeDefault": both.get("seccompProfile") == SECCOMP,
        }
        yield from (f"{where}.{rule}" for rule, holds in expected.items() if not holds)
        if any("hostPort" in port for port in items(box, "ports")):
            yield f"container {box.get('name')}: ports: must not take a port of the host"


def check_image(work: Workload) -> Iterator[str]:
    for box in work.boxes:
        image = str(box.get("image") or "")
        tag = image.rpartition("/")[2].partition(":")[2]
        if "@sha256:" not in image and tag in ("", "latest"):
            yield f"container {box.get('name')}: image: {image!r} names no version"


def check_resources(work: Workload) -> Iterator[str]:
    for box in work.boxes:
        for name in ("cpu", "memory"):
            where = f"container {box.get('name')}: resources"
            limit = quantity(inside(box, "resources", "limits", name))
            request = quantity(inside(box, "resources", "requests", name))
            if not limit:
                yield f"{where}.limits.{name}: is missing or no quantity"
            if not request:
                yield f"{where}.requests.{name}: is missing or no quantity"
            if limit and request and request > limit:
                yield f"{where}.requests.{name}: is more than the limit"


def check_probes(work: Workload) -> Iterator[str]:
    for name, path in PROBES.items():
        get = mapping(work.main, name, "httpGet")
        if not get:
            yield f"{name}: is missing, or asks no httpGet"
            continue
        if get.get("path") != path:
            yield f"{name}: path: {get.get('path')} is not {path}"
        port = work.port(get.get("port"))
        if port is None and isinstance(get.get("port"), int):
            port = get["port"]
        config = _config(work)
        served = config.web.port if config else None
        if served is not None and port != served:
            yield f"{name}: port: {get.get('port')} is not the web server's {served}"
        if get.get("scheme", "HTTP") != "HTTP" or get.get("host"):
            yield f"{name}: asks another host or scheme than the web server's"


def check_grace(work: Workload) -> Iterator[str]:
    grace = work.pod.get("terminationGracePeriodSeconds")
    if (config := _config(work)) is None:
        return
    needed = config.stream.shutdown_s + SHUTDOWN_SLACK_S
    hook = quantity(inside(work.main, "lifecycle", "preStop", "sleep", "seconds")) or 0.0
    if not isinstance(grace, int):
        yield "terminationGracePeriodSeconds: is missing"
    elif grace <= needed + hook:
        yield (
            f"terminationGracePeriodSeconds: {grace} is not longer than the {needed + hook:g} s "
            f"that the process takes (stream.shutdown_s and {SHUTDOWN_SLACK_S:g} s)"
        )


def check_environment(work: Workload) -> Iterator[str]:
    """Each variable means something, and each is there once."""
    entries = items(work.main, "env")
    if len({str(entry.get("name")) for entry in entries}) < len(entries):
        yield "env: a variable is there twice"
    if work.main.get("envFrom"):
        yield "envFrom: variables of unknown names; name each under env"
    for entry in items(work.main, "env"):
        name = str(entry.get("name"))
        section, _, key = name.removeprefix("NEWSIFT_").lower().partition("__")
        is_key = name in VARIABLES or (name.isupper() and key in KEYS.get(section, {}))
        if name.upper().startswith("NEWSIFT") and not is_key:
            yield f"env: {name} is not a key of the configuration, and would be ignored or refused"
        if SECRET.search(name) and "value" in entry and not name.endswith("_FILE"):
            yield f"env: {name} is a secret; read it from a Secret"
        if ("value" in entry) == bool(entry.get("valueFrom")):
            yield f"env: {name} needs either value or valueFrom"


def check_configuration(work: Workload) -> Iterator[str]:
    """The product's own reader takes the ConfigMap and the environment; the web is in reach."""
    if work.config_text is None:
        yield "env: NEWSIFT_CONFIG names no file of a ConfigMap that is mounted"
    try:
        config = work.config
    except ConfigError as error:
        yield f"configuration: {error}"
        return
    if config.web.host in ("127.0.0.1", "localhost", "::1"):
        yield "configuration: web.host: probes cannot reach it; set 0.0.0.0"
    if not config.web.port:
        yield "configuration: web.port: is not fixed, so probes cannot know it"
    elif work.port(config.web.port) is None:
        yield f"ports: no containerPort {config.web.port}, which is web.port"
    if config.kafka.bootstrap_servers.startswith(("127.", "localhost")):
        yield "configuration: kafka.bootstrap_servers: is the pod itself"


def check_instance(work: Workload) -> Iterator[str]:
    """The instance id is the pod's name, and that name outlives the pod."""
    if not work.is_worker:
        return
    entries = [each for each in items(work.main, "env") if each.get("name") == INSTANCE]
    fields = [inside(each, "valueFrom", "fieldRef", "fieldPath") for each in entries]
    if fields != ["metadata.name"]:
        yield f"env: {INSTANCE} is not the pod's name (fieldRef metadata.name)"
    if work.item.get("kind") != "StatefulSet":
        yield "is not a StatefulSet, so a pod that is replaced gets another name and instance id"


def check_volumes(work: Workload) -> Iterator[str]:
    mounts = items(work.main, "volumeMounts")
    used = {str(mount.get("name")) for mount in mounts}
    for name in sorted(used - set(work.volumes)):
        yield f"volumeMounts: {name} is not a volume"
    yield from (f"volumes: {name} is mounted nowhere" for name in sorted(set(work.volumes) - used))
    own = [str(volume.get("name")) for volume in items(work.pod, "volumes")]
    if len(own) + len(items(work.item, "spec", "volumeClaimTemplates")) > len(work.volumes):
        yield f"volumes: {', '.join(own)}: one is there twice, or a claim template too"
    for name, volume in work.volumes.items():
        kinds = set(volume) - {"name"}
        yield from (f"volumes: {name}: {kind} is not allowed" for kind in sorted(kinds - ALLOWED))
        config = mapping(volume, "configMap")
        if config and not config.get("optional") and str(config.get("name")) not in work.configs:
            yield f"volumes: {name}: there is no ConfigMap {config.get('name')}"


def check_cache(work: Workload) -> Iterator[str]:
    """The cache lies where newsift accepts it (encoder.support.files.private_folder).

    The root of a claim belongs to root and, by fsGroup, to a group that can write to it; that of
    an emptyDir can be written by everybody.
    """
    if not work.is_worker:
        return
    path = work.variables.get("NEWSIFT_CACHE")
    place = work.volume_at(path) if path else None
    if place is None:
        yield "cache: NEWSIFT_CACHE is on no volume, and the root is read-only"
        return
    mount, volume = place
    if not LASTING & set(volume):
        kind = "".join(set(volume) - {"name"})
        yield f"cache: {path} is on a volume of kind {kind}, which newsift refuses; use a claim"
        return
    if Path(str(path)) == mount:
        yield f"cache: {path} is the root of its volume, whose group can write; use a folder in it"
    context = mapping(work.pod, "securityContext") | mapping(work.main, "securityContext")
    group = mapping(work.pod, "securityContext").get("fsGroup")
    if not group or context.get("runAsGroup") != group:
        yield "cache: fsGroup and runAsGroup differ, so newsift refuses the volume"
    if mapping(work.pod, "securityContext").get("fsGroupChangePolicy") != "OnRootMismatch":
        yield (
            "cache: fsGroupChangePolicy is not OnRootMismatch, so each start makes the cache "
            "writable by the group, and newsift refuses it"
        )


def check_state(work: Workload) -> Iterator[str]:
    """The collector's position is on a claim, and one process alone writes to it."""
    if not work.is_collector:
        return
    if inside(work.item, "spec", "replicas") != 1:
        yield "replicas: must be 1: two collectors never share a state"
    kind, strategy = work.item.get("kind"), inside(work.item, "spec", "strategy", "type")
    if kind != "StatefulSet" and strategy != "Recreate":
        yield "strategy: must be Recreate: two collectors never share a state"
    claims = mapping(work.item, "spec", "persistentVolumeClaimRetentionPolicy")
    if "Delete" in claims.values():
        yield "persistentVolumeClaimRetentionPolicy: must retain how far the collector came"
    option = work.command.index("--state") if "--state" in work.command[:-1] else None
    path = work.variables.get("NEWSIFT_STATE") if option is None else work.command[option + 1]
    place = work.volume_at(path) if path else None
    if place is None or not LASTING & set(place[1]):
        yield f"state: {path} is on no claim, so the collector forgets how far it came"
    if not mapping(work.pod, "securityContext").get("fsGroup"):
        yield "state: without fsGroup the collector cannot write to its claim"


def check_gpu(work: Workload) -> Iterator[str]:
    config = _config(work)
    has = GPU in mapping(work.main, "resources", "limits")
    if config and config.model.device == "cuda" and not has:
        yield f"resources.limits: no {GPU}, though model.device is cuda"
    if has and config and config.model.device == "cpu":
        yield f"resources.limits: {GPU}, though model.device is cpu"
    if has and "cuda" not in str(work.main.get("image")):
        yield "image: has no PyTorch, though the pod has a GPU; use the target cuda"


def _config(work: Workload) -> Config | None:
    try:
        return work.config
    except ConfigError:
        return None


RULES: tuple[Callable[[Workload], Iterator[str]], ...] = (
    check_command, check_rights, check_image, check_resources, check_probes, check_grace,
    check_environment, check_configuration,
    check_instance, check_volumes, check_cache, check_state, check_gpu,
)  # fmt: skip
