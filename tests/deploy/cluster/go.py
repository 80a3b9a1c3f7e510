"""The programs of a control plane, built from Go modules of pinned versions, kept in the cache."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from encoder.support.files import cache_root

HERE = Path(__file__).parent
# The versions, each with the sum of its files; what these need is pinned by their own go.sum.
MODULES = {
    "k8s.io/kubernetes": ("v1.37.2", "h1:A2VDEiObzkYqFTKhSsn0ZEb0RlLEXpHWj93gi2HqEwE="),
    "sigs.k8s.io/kwok": ("v0.8.0", "h1:OTIOTwgROqPMovcTwxICx2eYQ4AwLpSx5EpjbDKF4SQ="),
    "github.com/kedacore/keda/v2": (
        "v2.21.0", "h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps=",
    ),
    "github.com/prometheus-operator/prometheus-operator": (
        "v0.85.0", "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
    ),
}  # fmt: skip
KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
KEDA = {"keda-operator": "./cmd/operator", "keda-adapter": "./cmd/adapter"}
PROGRAMS = ("etcd", *KUBERNETES, "kwok", *KEDA)
OLDEST = (1, 26)  # Kubernetes and KEDA ask for it
BUILD = ("build", "-p", str(os.cpu_count() or 1), "-trimpath", "-ldflags", "-s -w")
# Kubernetes' own modules lie in its source; as modules of their own they have this version.
STAGED = re.compile(r"=> \./staging/src/(k8s\.io/[a-z-]+)")


class Unavailable(RuntimeError):
    """A program that is needed cannot be built here; the message says why."""


def run_go(*arguments: str, folder: Path | None = None, **variables: str) -> str:
    """Standard output of `go` with these arguments, run beside others that matter more."""
    program = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if program is None:
        raise Unavailable("the control plane needs Go 1.26 or newer, and `go` is not on the PATH")
    env = os.environ | {
        "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false", "CGO_ENABLED": "0", **variables,
    }  # fmt: skip
    done = subprocess.run(
        ["nice", "-n", "10", program, *arguments],
        cwd=folder, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise Unavailable(f"go {' '.join(arguments)}: {(done.stderr or done.stdout)[-2000:]}")
    return done.stdout


def module(name: str) -> Path:
    """The files of a pinned module, fetched if they are not there."""
    version, expected = MODULES[name]
    facts = json.loads(run_go("mod", "download", "-json", f"{name}@{version}"))
    if facts["Sum"] != expected:
        raise Unavailable(f"{name}@{version}: its sum is {facts['Sum']}, and not the pinned one")
    return Path(facts["Dir"])


def custom_definitions() -> list[Path]:
    """The CustomResourceDefinitions of the kinds that the manifests use."""
    keda = module("github.com/kedacore/keda/v2") / "config/crd/bases"
    operator = module("github.com/prometheus-operator/prometheus-operator")
    prometheus = operator / "example/prometheus-operator-crd"
    return [
        keda / "keda.sh_scaledobjects.yaml",
        keda / "keda.sh_triggerauthentications.yaml",
        prometheus / "monitoring.coreos.com_podmonitors.yaml",
        prometheus / "monitoring.coreos.com_prometheusrules.yaml",
    ]


def cache_folder() -> Path:
    """Where the programs of these versions are."""
    digest = hashlib.sha256(json.dumps(MODULES).encode())
    for file in sorted([*HERE.glob("*/go.*"), *HERE.glob("*/*.go")]):
        digest.update(file.read_bytes())
    return cache_root() / f"cluster-{digest.hexdigest()[:12]}"


def are_built() -> bool:
    return all((cache_folder() / name).is_file() for name in PROGRAMS)


def programs() -> Path:
    """The folder of all programs; what is missing is built."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    if not are_built():
        version = run_go("env", "GOVERSION").strip()
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST:
            raise Unavailable(f"the control plane needs Go 1.26 or newer, and this is {version}")
    for name in PROGRAMS:
        if (folder / name).is_file():
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            build(name, Path(work))
            (Path(work) / "out").replace(folder / name)
        print(f"built {name} in {time.monotonic() - began:.0f} s", file=sys.stderr)  # noqa: T201
    return folder


def build(name: str, work: Path) -> None:
    """Build a program as the file `out` in this folder."""
    if name == "etcd":
        run_go(*BUILD, "-o", f"{work}/out", "go.etcd.io/etcd/server/v3", folder=HERE / "etcd")
    elif name == "kwok":
        version = MODULES["sigs.k8s.io/kwok"][0]
        run_go("install", *BUILD[1:], f"sigs.k8s.io/kwok/cmd/kwok@{version}", GOBIN=str(work))
        (work / "kwok").replace(work / "out")
    else:
        package = KEDA.get(name, f"./cmd/{name}")
        source = copied(
            "github.com/kedacore/keda/v2" if name in KEDA else "k8s.io/kubernetes", work
        )
        flags = "-mod=mod -buildvcs=false"
        run_go(*BUILD, "-o", f"{work}/out", package, folder=source, GOFLAGS=flags)


def copied(name: str, work: Path) -> Path:
    """A copy of a module in which Go may complete what its own recipe leaves open."""
    source = work / "source"
    shutil.copytree(module(name), source, copy_function=shutil.copyfile)
    for path in [source, *source.rglob("*")]:  # Go keeps its modules read-only
        path.chmod(0o755 if path.is_dir() else 0o644)
    shutil.rmtree(source / "vendor", ignore_errors=True)
    for file in source.glob("go.work*"):
        file.unlink()
    version = MODULES[name][0].replace("v1.", "v0.", 1)
    recipe = source / "go.mod"
    recipe.write_text(STAGED.sub(rf"=> \1 {version}", recipe.read_text("utf-8")), "utf-8")
    return source
