"""Build deploy/Dockerfile and run it as deploy/kubernetes/base runs a worker.

python -m tests.deploy.image

buildah builds the target cpu on Debian by mmdebstrap, by the name of the Dockerfile's base.
runc runs it with the rights, limits, volumes and configuration of the manifest; the claim is a
folder, and the network is the host's. seccomp and network policies are not checked. Exit code 77,
with the reason, where that cannot be done.
"""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from encoder.support.files import cache_root
from newsift.broker.server import running
from newsift.cli.processes import free_port
from tests.broker.clients import read_to_end, until, write
from tests.deploy.manifests import HERE
from tests.deploy.objects import Object, Stack, Workload, at, items, mapping, quantity

ROOT = HERE.parents[1]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
TOOLS = ("mmdebstrap", "buildah", "umoci", "runc")
SKIPPED = 77
# As in Docker's own images of Debian: no recommended packages, no documents, no translations.
BASE = (
    "mmdebstrap", "--quiet", "--variant=minbase", "--include=python3,python3-venv,ca-certificates",
    '--aptopt=Apt::Install-Recommends "false"',
    *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "info", "locale", "man")),
    '--customize-hook=ln -s /usr/bin/python3 "$1/usr/local/bin/python3"',
)  # fmt: skip
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
MAX_MB = 350  # of the compressed layers, which a node pulls
POD = "newsift-worker-0"
SAMPLES = ROOT / "worker" / "samples"
NEWSIFT = Path(sys.executable).with_name("newsift")
# Left in the context of the build: none may be in the image.
CANARY = "newsift-canary-3b1f0a7c"
LEFT_BEHIND = (".env", ".git/config", "worker/.env", "newsift/.netrc", "deploy/image/pip.conf")


class Unavailable(RuntimeError):
    """What is needed cannot be had here; the message says why."""


def show(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def call(*command: str | Path, **options: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise RuntimeError(f"{command[0]} {command[1]}: {(done.stdout + done.stderr)[-3000:]}")
    return str(done.stdout)


def base_image() -> str:
    names: list[str] = re.findall(
        r"^FROM (\S+:\S+) AS", DOCKERFILE.read_text("utf-8"), re.MULTILINE
    )
    assert len(set(names)) == 1, names
    return names[0]


def base_archive() -> Path:
    """Debian with its Python as an archive, in the user's cache."""
    suite = base_image().rpartition("-")[2]
    digest = hashlib.sha256(repr((BASE, suite)).encode()).hexdigest()[:12]
    archive = cache_root() / f"image-base-{suite}-{digest}.tar"
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        new = archive.with_suffix(f".{os.getpid()}.tar")
        try:
            call(*BASE, suite, new)
            new.replace(archive)
        except RuntimeError as error:
            raise Unavailable(f"no Debian to build on: {error}") from error
        finally:
            new.unlink(missing_ok=True)
    return archive


def copy_context(folder: Path) -> None:
    """What git tracks, and files that must not get into the image."""
    names = call("git", "ls-files", "-z", cwd=ROOT).split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    for name in LEFT_BEHIND:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"password = {CANARY}\n", "ascii")


def build_image(folder: Path) -> tuple[Path, int]:
    """The image unpacked, as runc takes it, and the bytes of its compressed layers."""
    os.environ["BUILDAH_ISOLATION"] = "chroot"
    storage = ("--root", folder / "store", "--runroot", folder / "run", "--storage-driver", "vfs")
    context, layout, bundle = folder / "context", folder / "oci", folder / "bundle"
    copy_context(context)
    # uv has certificates of its own; a proxy's are the system's.
    (folder / "uv.toml").write_text('native-tls = true\ncache-dir = "/tmp/uv"\n', "ascii")
    packages = cache_root() / "image-uv"
    packages.mkdir(parents=True, exist_ok=True)
    volumes = [f"{folder}/uv.toml:/etc/uv/uv.toml:ro", f"{packages}:/tmp/uv"]
    if certificates := os.environ.get("SSL_CERT_FILE"):
        volumes.append(f"{certificates}:{CERTIFICATES}:ro")
    container = call("buildah", *storage, "from", "scratch").strip()
    call("buildah", *storage, "add", "--quiet", container, base_archive(), "/")
    call("buildah", *storage, "commit", "--quiet", "--rm", container, base_image())
    call(
        "buildah", *storage, "build", "--pull=never", "--quiet", "--format=docker",
        *(part for volume in volumes for part in ("--volume", volume)),
        "--ignorefile", context / "deploy/Dockerfile.dockerignore",
        "--file", context / "deploy/Dockerfile", "--tag", "newsift", context,
    )  # fmt: skip
    call("buildah", *storage, "push", "--quiet", "--format=oci", "newsift", f"oci:{layout}:newsift")
    call("umoci", "unpack", "--image", f"{layout}:newsift", bundle)
    shutil.rmtree(folder / "store")
    index = json.loads((layout / "index.json").read_bytes())
    digest = str(index["manifests"][0]["digest"]).replace(":", "/")
    manifest = json.loads((layout / "blobs" / digest).read_bytes())
    return bundle, sum(layer["size"] for layer in manifest["layers"])


def image_faults(bundle: Path, size: int) -> Iterator[str]:
    if size > MAX_MB * 1e6:
        yield f"the image has more than {MAX_MB} MB"
    if [*bundle.glob("rootfs/opt/newsift/lib/python*/site-packages/torch")]:
        yield "PyTorch is in the image"
    process = json.loads((bundle / "config.json").read_bytes())["process"]
    if re.search("PASSWORD|TOKEN|SECRET", str(process)):
        yield "the image's environment names a secret"
    found = subprocess.run(
        ["grep", "--recursive", "--files-with-matches", "--devices=skip", CANARY, "rootfs"],
        cwd=bundle, capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    yield from (f"{file} must not be in the image" for file in found.splitlines())


@dataclass
class Container:
    """A container of the worker's pod, as the manifest has it, on the host's network."""

    bundle: Path
    work: Workload
    box: Object
    folder: Path
    kafka: str
    port: int = field(default_factory=free_port)

    def start(self) -> "subprocess.Popen[bytes]":
        config = json.loads((self.bundle / "config.json").read_bytes())
        config.update(self._changed(config))
        home = self.folder / "container"
        home.mkdir(exist_ok=True)
        (home / "config.json").write_text(json.dumps(config), "ascii")
        with (self.folder / "log").open("wb") as log:
            return subprocess.Popen(
                ["runc", "run", "--bundle", home, "--pid-file", self.folder / "pid", POD],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def read_log(self) -> str:
        return (self.folder / "log").read_text("utf-8")

    def _changed(self, config: Any) -> Object:
        pod, own = mapping(self.work.pod, "securityContext"), mapping(self.box, "securityContext")
        process, linux = dict(config["process"]), dict(config["linux"])
        process["terminal"] = False
        process["user"] = {
            "uid": pod["runAsUser"], "gid": pod["runAsGroup"], "additionalGids": [pod["fsGroup"]],
        }  # fmt: skip
        process["noNewPrivileges"] = own["allowPrivilegeEscalation"] is False
        if own["capabilities"] == {"drop": ["ALL"]}:
            process["capabilities"] = {name: [] for name in process["capabilities"]}
        process["env"] = [*process["env"], *self._environment()]
        if "command" in self.box:
            process["args"] = [*self.box["command"], *self.box.get("args", ())]
        limits = mapping(self.box, "resources.limits")
        cpus, memory = quantity(limits["cpu"]), quantity(limits["memory"])
        linux["resources"] = {
            "memory": {"limit": int(memory)}, "cpu": {"period": 100_000, "quota": int(cpus * 1e5)},
        }  # fmt: skip
        linux["namespaces"] = [each for each in linux["namespaces"] if each["type"] != "network"]
        linux["cgroupsPath"] = f"/newsift-image-{os.getpid()}"
        system = ("/proc", "/dev", "/sys")
        standard = [each for each in config["mounts"] if each["destination"].startswith(system)]
        root = {"path": str(self.bundle / "rootfs"), "readonly": own["readOnlyRootFilesystem"]}
        mounts = [*standard, *self._mounts()]
        return {"process": process, "linux": linux, "mounts": mounts, "root": root}

    def _environment(self) -> Iterator[str]:
        """The manifest's variables, and where Kafka and a free port are here."""
        for entry in items(self.box, "env"):
            if at(entry, "valueFrom.fieldRef.fieldPath") == "metadata.name":
                yield f"{entry['name']}={POD}"
            elif "value" in entry:
                yield f"{entry['name']}={entry['value']}"
        yield f"NEWSIFT_KAFKA={self.kafka}"
        yield f"NEWSIFT_WEB__PORT={self.port}"

    def _mounts(self) -> Iterator[Object]:
        (self.folder / "config").mkdir(exist_ok=True)
        (self.folder / "config/config.yaml").write_text(self.work.config_text, "utf-8")
        for mount in items(self.box, "volumeMounts"):
            volume = self.work.volumes[str(mount["name"])]
            options = ["ro" if mount.get("readOnly") else "rw", "nosuid", "nodev"]
            place: Object = {"destination": mount["mountPath"]}
            if "emptyDir" in volume:
                limit = int(quantity(at(volume, "emptyDir.sizeLimit")))
                place |= {"type": "tmpfs", "source": "tmpfs"}
                yield place | {"options": [*options, "mode=1777", f"size={limit}"]}
            else:
                source = self.folder / ("config" if "configMap" in volume else "claim")
                yield place | {
                    "type": "bind", "source": str(source), "options": [*options, "rbind"],
                }  # fmt: skip

    def is_ready(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def rights_of(pid: int) -> dict[str, str]:
    """What the kernel says that a process may do."""
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    mounts = Path(f"/proc/{pid}/mountinfo").read_text("utf-8").splitlines()
    root = next(line.split()[5] for line in mounts if line.split()[4] == "/")
    names = ("Uid", "Gid", "CapEff", "CapBnd", "NoNewPrivs")
    return {name: status[name].split()[0] for name in names} | {"root": root.split(",")[0]}


def compiled_code(folder: Path) -> dict[str, tuple[int, int]]:
    """The files of a cache; others where anything was compiled and stored."""
    files = {str(path): path.stat() for path in folder.rglob("*.nb?")}
    return {name: (facts.st_ino, facts.st_mtime_ns) for name, facts in files.items()}


def matched_pairs(lines: Sequence[bytes]) -> Counter[tuple[str, str]]:
    records = [json.loads(line) for line in lines]
    return Counter(
        (record["post"]["id"], each["seed_id"]) for record in records for each in record["matches"]
    )


@contextmanager
def ready(worker: Container) -> Iterator["subprocess.Popen[bytes]"]:
    process = worker.start()
    try:
        until(lambda: process.poll() is not None or worker.is_ready(), 120.0)
        if process.poll() is not None:
            raise RuntimeError(f"the worker: exit {process.poll()}: {worker.read_log()}")
        yield process
    finally:
        if process.poll() is None:
            call("runc", "kill", POD, "KILL")
            process.wait()


def worker_faults(bundle: Path, folder: Path, kafka: str) -> Iterator[str]:
    """What the pod's two containers do wrong, one after the other, on one new claim."""
    work = next(each for each in Stack().build(HERE / "base").workloads if each.is_worker)
    user, claim = str(work.pod["securityContext"]["runAsUser"]), folder / "claim"
    claim.mkdir()
    os.chown(claim, 0, int(work.pod["securityContext"]["fsGroup"]))
    claim.chmod(0o2775)  # as a kubelet mounts it for fsGroup
    (folder / "config.yaml").write_text(work.config_text, "utf-8")
    env = os.environ | {"NEWSIFT_CONFIG": str(folder / "config.yaml"), "NEWSIFT_KAFKA": kafka}
    call(NEWSIFT, "topics", "create", env=env)
    call(NEWSIFT, "seeds", "add", SAMPLES / "seeds", "--no-preview", env=env)
    posts, found = SAMPLES / "posts.jsonl", folder / "matches.jsonl"
    call(NEWSIFT, "filter", posts, "--seeds", SAMPLES / "seeds", "--out", found)
    expected = matched_pairs(found.read_bytes().splitlines())

    (box,) = items(work.pod, "initContainers")
    init = Container(bundle, work, box, folder, kafka)
    if code := init.start().wait():
        yield f"the first container: exit {code}: {init.read_log()}"
    cache = claim / Path(str(work.variables["NEWSIFT_CACHE"])).name
    before, began = compiled_code(cache), time.monotonic()
    with ready(Container(bundle, work, work.main, folder, kafka)) as process:
        seconds = time.monotonic() - began
        show(f"ready {seconds:.1f} s after its start, with the image's compiled code")
        (period,) = re.findall(r"--start-period=(\d+)s", DOCKERFILE.read_text("utf-8"))
        if seconds > float(period):
            yield f"ready only after {seconds:.1f} s"
        due = {"Uid": user, "Gid": user, "CapEff": "0" * 16, "CapBnd": "0" * 16,
               "NoNewPrivs": "1", "root": "ro"}  # fmt: skip
        if (own := rights_of(int((folder / "pid").read_text("ascii")))) != due:
            yield f"the worker's rights are {own}"
        write(kafka, "tweets", posts.read_bytes().splitlines())

        def matches() -> Counter[tuple[str, str]]:
            return matched_pairs([each.value for each in read_to_end(kafka, "matched-tweets")])

        until(lambda: matches().total() >= expected.total())
        if matches() != expected:
            yield "the matches are not those of newsift filter"
        process.send_signal(signal.SIGTERM)
        if code := process.wait(float(work.pod["terminationGracePeriodSeconds"])):
            yield f"SIGTERM: the worker ended with {code}"
    if not before or compiled_code(cache) != before:
        yield "code was compiled at the start"


def try_image(folder: Path) -> list[str]:
    bundle, size = build_image(folder)
    show(f"{size / 1e6:.0f} MB compressed")
    with running() as broker:
        return [*image_faults(bundle, size), *worker_faults(bundle, folder, broker.address)]


def main() -> int:
    missing = [name for name in TOOLS if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        show(f"SKIPPED: the image needs root and Debian's {', '.join(missing or TOOLS)}")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="newsift-image-") as folder:
        try:
            failures = try_image(Path(folder))
        except Unavailable as error:
            show(f"SKIPPED: {error}")
            return SKIPPED
    for failure in failures:
        show(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
