"""Build deploy/Dockerfile and run it as deploy/kubernetes/base runs a worker.

python -m tests.deploy.image

buildah builds the target cpu on Debian by mmdebstrap, by the name of the Dockerfile's base.
runc runs it with the rights, limits, volumes and configuration of the manifest; the claim is a file
system in memory, and the network is the host's. seccomp and network policies are not checked, and
what a later instruction of the Dockerfile removes is in no layer here. Exit code 77, with the
reason, where that cannot be done.
"""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
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
from tests.deploy.manifests import HERE, SECRET
from tests.deploy.objects import Object, Stack, Workload, at, items, mapping, quantity

ROOT = HERE.parents[1]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
TOOLS = ("mmdebstrap", "buildah", "umoci", "runc", "mount")
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
MIB = 2**20
CLAIM_BYTES = 256 * MIB
POD = "newsift-worker-0"
SAMPLES = ROOT / "worker" / "samples"
# Left in the context of the build: none may be in a layer.
CANARY = b"newsift-canary-3b1f0a7c"
LEFT_BEHIND = (".env", ".git/config", "worker/.env", "newsift/.netrc", "deploy/image/pip.conf")
FORBIDDEN_NAME = re.compile(
    r"(^|/)(\.git|\.env[^/]*|\.netrc|\.pypirc|\.ssh|\.aws|\.docker|\.kube|pip\.conf|uv\.toml"
    r"|\.cache|id_(rsa|ed25519)|[^/]+\.(key|deb))(/|$)|^(var/lib/apt/lists|tmp|run/secrets|root)/."
)
DEBIANS = {"root/.bashrc", "root/.profile"}
PRIVATE_KEY = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\r?\n[A-Za-z0-9+/]{60}|\bAKIA[0-9A-Z]{16}\b"
    rb"|\bgh[pousr]_[A-Za-z0-9]{36}\b"
)
REMEDY = "in NEWSIFT_CACHE"  # of the warning that compiled code cannot be stored


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


@dataclass(frozen=True)
class Image:
    layout: Path  # of OCI
    bundle: Path  # unpacked, as runc takes it
    layers: list[tuple[Path, int]]  # compressed, and their bytes

    @property
    def root(self) -> Path:
        return self.bundle / "rootfs"


def copy_context(folder: Path) -> None:
    """What git tracks, and files that must not get into the image."""
    names = call("git", "ls-files", "-z", cwd=ROOT).split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    for name in LEFT_BEHIND:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"password = " + CANARY + b"\n")


def build_image(folder: Path) -> Image:
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
    manifest = json.loads(blob(layout, index["manifests"][0]).read_bytes())
    layers = [(blob(layout, each), each["size"]) for each in manifest["layers"]]
    return Image(layout, bundle, layers)


def blob(layout: Path, entry: Any) -> Path:
    return layout / "blobs" / str(entry["digest"]).replace(":", "/")


def layer_faults(layers: Sequence[Path]) -> Iterator[str]:
    """Files that no layer may have, whatever a later layer removes."""
    for number, layer in enumerate(layers):
        with tarfile.open(layer) as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if FORBIDDEN_NAME.search(name) and member.size and name not in DEBIANS:
                    yield f"layer {number}: {name} must not be there"
                if member.isfile() and member.size <= MIB:
                    content = archive.extractfile(member)
                    assert content is not None
                    text = content.read()
                    if CANARY in text or PRIVATE_KEY.search(text):
                        yield f"layer {number}: {name} has a secret"


def check_search(folder: Path) -> None:
    """The search of layers has to find what is planted."""
    layer = folder / "planted.tar"
    with tarfile.open(layer, "w") as archive:
        for name in LEFT_BEHIND:
            archive.add(folder / "context" / name, name)
        archive.add(folder / "context/.env", "opt/harmless")
    expected = 2 * len(LEFT_BEHIND) + 1
    assert len([*layer_faults([layer])]) == expected, [*layer_faults([layer])]


@dataclass
class Container:
    """A container of the worker's pod, as the manifest has it, on the host's network."""

    image: Image
    work: Workload
    box: Object
    claim: Path
    kafka: str
    folder: Path
    port: int = field(default_factory=free_port)

    def start(self) -> "subprocess.Popen[bytes]":
        config = json.loads((self.image.bundle / "config.json").read_bytes())
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
        return {
            "process": process, "linux": linux, "mounts": [*standard, *self._mounts()],
            "root": {"path": str(self.image.root), "readonly": own["readOnlyRootFilesystem"]},
        }  # fmt: skip

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
        for mount in items(self.box, "volumeMounts"):
            volume = self.work.volumes[str(mount["name"])]
            options = ["ro" if mount.get("readOnly") else "rw", "nosuid", "nodev"]
            result: Object = {
                "destination": mount["mountPath"],
                "type": "bind",
                "source": str(self.claim),
            }
            if "configMap" in volume:
                folder = self.folder / "config"
                folder.mkdir(exist_ok=True)
                (folder / "config.yaml").write_text(self.work.config_text, "utf-8")
                result["source"] = str(folder)
            elif "emptyDir" in volume:
                result |= {"type": "tmpfs", "source": "tmpfs"}
                limit = quantity(at(volume, "emptyDir.sizeLimit"))
                yield result | {"options": [*options, "mode=1777", f"size={int(limit)}"]}
                continue
            yield result | {"options": [*options, "rbind"]}

    def is_ready(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def pid(self) -> int:
        return int((self.folder / "pid").read_text("ascii"))


def rights(pid: int) -> dict[str, str]:
    """What the kernel says that a process may do."""
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    mounts = Path(f"/proc/{pid}/mountinfo").read_text("utf-8").splitlines()
    root = next(line.split()[5] for line in mounts if line.split()[4] == "/")
    names = ("Uid", "Gid", "CapEff", "CapBnd", "NoNewPrivs")
    return {name: status[name].split()[0] for name in names} | {"root": root.split(",")[0]}


def cgroup_value(pid: int, *names: str) -> int:
    """Of the memory controller, by its name in cgroups v1 or v2."""
    rows = [
        line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text("ascii").splitlines()
    ]
    paths = [("/sys/fs/cgroup/memory" if kinds else "/sys/fs/cgroup") + path
             for _, kinds, path in rows if kinds in ("memory", "")]  # fmt: skip
    files = (Path(path) / name for path in paths for name in names)
    return int(next(file for file in files if file.exists()).read_text("ascii"))


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """What each file of a cache is; another one where anything was compiled and stored."""
    files = {str(path.relative_to(folder)): path.stat() for path in folder.rglob("*.nb?")}
    return {name: (facts.st_ino, facts.st_mtime_ns) for name, facts in files.items()}


def fill(claim: Path) -> Path:
    file = claim / "full"
    with file.open("wb", buffering=0) as out:
        try:
            while True:
                out.write(bytes(4096))
        except OSError:
            return file


@contextmanager
def claimed(folder: Path, group: int) -> Iterator[Path]:
    """A new claim as a kubelet mounts it for fsGroup."""
    folder.mkdir()
    options = f"size={CLAIM_BYTES},mode=2775,uid=0,gid={group}"
    try:
        call("mount", "-t", "tmpfs", "-o", options, "newsift-claim", folder)
    except RuntimeError as error:
        raise Unavailable(f"no file system can be mounted here: {error}") from error
    try:
        yield folder
    finally:
        call("umount", folder)


def matched_pairs(lines: Sequence[bytes]) -> Counter[tuple[str, str]]:
    records = [json.loads(line) for line in lines]
    return Counter(
        (record["post"]["id"], each["seed_id"]) for record in records for each in record["matches"]
    )


class Trial:
    """The stories of one image: it is started three times on one claim."""

    def __init__(self, image: Image, folder: Path, claim: Path, kafka: str, work: Workload) -> None:
        self.failures: list[str] = []
        (init,) = items(work.pod, "initContainers")
        parts = (claim, kafka, folder)
        self.init, self.worker = (Container(image, work, box, *parts) for box in (init, work.main))
        self.claim, self.kafka, self.work = claim, kafka, work
        self.cache = claim / Path(str(work.variables["NEWSIFT_CACHE"])).name
        self.posts = (SAMPLES / "posts.jsonl").read_bytes().splitlines()
        newsift = Path(sys.executable).with_name("newsift")
        expected = folder / "matches.jsonl"
        call(
            newsift,
            "filter",
            SAMPLES / "posts.jsonl",
            "--seeds",
            SAMPLES / "seeds",
            "--out",
            expected,
        )
        self.expected = matched_pairs(expected.read_bytes().splitlines())
        self.written: Counter[tuple[str, str]] = Counter()
        config = folder / "config.yaml"
        config.write_text(work.config_text, "utf-8")
        env = os.environ | {"NEWSIFT_CONFIG": str(config), "NEWSIFT_KAFKA": kafka}
        call(newsift, "topics", "create", env=env)
        call(newsift, "seeds", "add", SAMPLES / "seeds", "--no-preview", env=env)

    def expect(self, holds: object, failure: str) -> None:
        if not holds:
            self.failures.append(failure)

    def prepare(self) -> None:
        """Run the pod's first container."""
        code = self.init.start().wait()
        self.expect(code == 0, f"the first container: exit {code}: {self.init.read_log()}")

    @contextmanager
    def serving(self) -> Iterator[None]:
        """A worker that is ready, then ended by SIGTERM."""
        began = time.monotonic()
        process = self.worker.start()
        try:
            until(lambda: process.poll() is not None or self.worker.is_ready(), 120.0)
            if process.poll() is not None:
                raise RuntimeError(f"the worker: exit {process.poll()}: {self.worker.read_log()}")
            self.seconds = time.monotonic() - began
            yield
            process.send_signal(signal.SIGTERM)
            code = process.wait(float(self.worker.work.pod["terminationGracePeriodSeconds"]))
            self.expect(code == 0, f"SIGTERM: the worker ended with {code}")
        finally:
            if process.poll() is None:
                call("runc", "kill", POD, "KILL")
                process.wait()

    def process(self, posts: Sequence[bytes]) -> None:
        """Publish posts and wait for what `newsift filter` finds in them."""
        ids = {json.loads(post)["id"] for post in posts}
        due = Counter({pair: n for pair, n in self.expected.items() if pair[0] in ids})
        self.written += due
        write(self.kafka, "tweets", posts)
        until(lambda: self.matches().total() >= self.written.total())
        self.expect(self.matches() == self.written, "the matches are not those of newsift filter")

    def matches(self) -> Counter[tuple[str, str]]:
        return matched_pairs([record.value for record in read_to_end(self.kafka, "matched-tweets")])

    def warm(self) -> None:
        """Nothing is compiled at the start; a claim that fills up meanwhile loses nothing."""
        before = snapshot(self.cache)
        half = len(self.posts) // 2
        with self.serving():
            show(f"ready {self.seconds:.1f} s after its start, with the image's compiled code")
            pid = self.worker.pid()
            self.check_limits(pid)
            self.process(self.posts[:half])
            full = fill(self.claim)
            self.process(self.posts[half:])
            peak = cgroup_value(pid, "memory.max_usage_in_bytes", "memory.peak")
            show(f"memory: {peak / 1e6:.0f} MB at most")
        full.unlink()
        period = re.findall(r"--start-period=(\d+)s", DOCKERFILE.read_text("utf-8"))[0]
        self.expect(self.seconds <= float(period), f"ready only after {self.seconds:.1f} s")
        new = sorted(name for name, _ in snapshot(self.cache).items() - before.items())
        self.expect(before and not new, f"code was compiled at the start: {new}")

    def check_limits(self, pid: int) -> None:
        user = str(self.work.pod["securityContext"]["runAsUser"])
        expected = {
            "Uid": user, "Gid": user, "CapEff": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1",
            "root": "ro",
        }  # fmt: skip
        self.expect(rights(pid) == expected, f"the worker's rights are {rights(pid)}")
        limit = cgroup_value(pid, "memory.limit_in_bytes", "memory.max")
        due = quantity(at(self.work.main, "resources.limits.memory"))
        self.expect(limit == due, f"the worker's memory is limited to {limit} bytes")

    def lose_function(self) -> None:
        """Remove the compiled code of one function."""
        index = min(self.cache.rglob("*.nbi"))
        for file in index.parent.glob(f"{index.stem}.*"):
            file.unlink()

    def full(self) -> None:
        """A claim that is full at the start: one line, and all posts are processed."""
        self.lose_function()
        fill(self.claim)
        self.prepare()
        with self.serving():
            show(f"ready {self.seconds:.1f} s after its start, on a claim that is full")
            self.process(self.posts)
        lines = [line for line in self.worker.read_log().splitlines() if REMEDY in line]
        self.expect(
            len(lines) == 1 and str(self.work.variables["NEWSIFT_CACHE"]) in lines[0],
            f"a full claim: {len(lines)} lines name it: {self.worker.read_log()}",
        )


def try_image(folder: Path) -> list[str]:
    began = time.monotonic()
    base_archive()
    show(f"base: {time.monotonic() - began:.0f} s")
    began = time.monotonic()
    image = build_image(folder)
    show(f"image: {time.monotonic() - began:.0f} s")
    check_search(folder)
    failures = [*layer_faults([layer for layer, _ in image.layers])]
    size = round(sum(size for _, size in image.layers) / 1e6)
    show(f"{size} MB compressed in {len(image.layers)} layers")
    if size > MAX_MB:
        failures.append(f"the image has more than {MAX_MB} MB")
    if [*image.root.glob("opt/newsift/lib/python*/site-packages/torch")]:
        failures.append("PyTorch is in the image")
    if SECRET.search(str(json.loads((image.bundle / "config.json").read_bytes())["process"])):
        failures.append("the image's environment names a secret")
    return failures + run_worker(image, folder)


def run_worker(image: Image, folder: Path) -> list[str]:
    work = next(each for each in Stack.build(HERE / "base").workloads if each.is_worker)
    group = int(work.pod["securityContext"]["fsGroup"])
    with claimed(folder / "claim", group) as claim, running() as broker:
        trial = Trial(image, folder, claim, broker.address, work)
        trial.prepare()
        trial.warm()
        trial.full()
    return trial.failures


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
