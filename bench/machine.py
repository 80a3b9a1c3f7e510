"""What a table of speeds must say about where it was made."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

FLAGS = ("avx2", "avx512f", "avx512bw", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_int8")
PACKAGES = ("numpy", "numba", "torch", "entmax", "sentence-transformers", "onnxruntime")


def describe() -> dict[str, str]:
    """The CPU, its vector instructions, and the versions of what computes."""
    facts = cpu_facts(_cpuinfo())
    cores = f"{os.cpu_count()} cores" if (os.cpu_count() or 1) > 1 else "1 core"
    return {
        "cpu": f"{facts.get('model name', platform.machine())}, {cores}",
        "flags": " ".join(f for f in FLAGS if f in facts.get("flags", "").split()) or "none known",
        "versions": ", ".join(
            [f"Python {platform.python_version()}", *(f"{p} {_version(p)}" for p in PACKAGES)]
        ),
    }


def cpu_facts(cpuinfo: str) -> dict[str, str]:
    """The first processor's facts out of the text of /proc/cpuinfo."""
    first = cpuinfo.strip().split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
