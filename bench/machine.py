"""What a table of speeds must say about where it was made."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

FLAGS = ("avx2", "avx512f", "avx512bw", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_int8")
PACKAGES = ("numpy", "numba", "torch", "entmax", "sentence-transformers")


def describe() -> dict[str, str]:
    """The CPU, its vector instructions, and the versions of what computes."""
    facts = cpu_facts()
    name, held = facts.get("model name", platform.machine()), facts.get("flags", "").split()
    packages = (f"{package} {_version(package)}" for package in PACKAGES)
    return {
        "cpu": f"{name}, {os.cpu_count()} cores",
        "flags": " ".join(flag for flag in FLAGS if flag in held) or "none known",
        "versions": ", ".join([f"Python {platform.python_version()}", *packages]),
    }


def cpu_facts() -> dict[str, str]:
    """What the system says of its first processor; nothing where it says nothing."""
    try:
        first = Path("/proc/cpuinfo").read_text().strip().split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
