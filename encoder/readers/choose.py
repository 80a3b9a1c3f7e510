"""Open what reads texts: on a CPU the compiled kernel and ONNX Runtime, on a GPU torch."""

import ctypes
import logging
import os
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType
from typing import Protocol

import numpy as np

from encoder.embeddings import unit_rows
from encoder.errors import DeviceError, InputError, one_line
from encoder.model.config import Side
from encoder.model.weights import F32, I32, I64
from encoder.model_directory import Model, SelfCheck, Star
from encoder.readers.star_chunks import StarReader, star_vectors
from encoder.support.threads import available_cpus

CHECK_TOLERANCE = 1e-3
log = logging.getLogger("newsift.encoder")


class Backend(Protocol):
    def forward(self, ids: I32, offsets: I64, side: Side) -> F32:
        """Compute the vectors [n, d]; text i is ids[offsets[i]:offsets[i + 1]]."""
        ...


@dataclass(frozen=True, slots=True)
class Readers:
    """Who reads texts for one model."""

    skim: Backend  # the gated mean, or the paper's star
    star: StarReader | None
    path: str  # where texts are read
    error: float  # of the length of a unit vector, at most, among the self-check's texts


def open_readers(model: Model, device: str, threads: int | None) -> Readers:
    """Open what reads texts, and skims posts, on a device; each passes its self-check."""
    refuse_device(device)
    if model.star is None:
        backend, path = open_backend(model, device, threads)
        return Readers(backend, None, path, check_error(backend, model))
    skim, _ = open_backend(model, "cpu", threads)
    if device == "auto" and cuda_present():
        try:
            return _readers(skim, model.star, "torch-cuda")
        except Exception as error:  # noqa: BLE001 - a driver can fail in any way
            log.warning("the GPU is not used, the CPU reads instead: %s", one_line(str(error)))
    return _readers(skim, model.star, "torch-cuda" if device == "cuda" else "onnx")


def _readers(skim: Backend, star: Star, path: str) -> Readers:
    reader = _star_reader(star, path)
    error = star_error(reader, star.check)
    if error > CHECK_TOLERANCE:
        raise DeviceError(f"device: {path} computes vectors that are off by {error:.1e}")
    return Readers(skim, reader, path, error)


def open_backend(model: Model, device: str, threads: int | None) -> tuple[Backend, str]:
    """Open the fastest backend that passes its check; return it and its name, kernel or torch."""
    if threads is not None and (type(threads) is not int or threads < 1):
        raise InputError(f"threads: {threads!r} is not a whole number from 1; leave it out for all")
    if device == "cuda":
        return _torch(model, "cuda", threads), "torch"
    kernel = _kernel(model, threads or available_cpus())
    if kernel is not None:  # with one thread it is as fast as a GPU, which waits for the tokens
        return kernel, "kernel"
    if device == "auto" and cuda_present():
        try:
            return _torch(model, "cuda", threads), "torch"
        except Exception as error:  # noqa: BLE001 - a driver can fail in any way
            log.warning("the GPU is not used, the CPU runs instead: %s", one_line(str(error)))
    return _torch(model, "cpu", threads), "torch"


def refuse_device(device: str) -> None:
    if device not in ("auto", "cpu", "cuda"):
        raise InputError(f"device: {device!r} is unknown; use auto, cpu or cuda")
    if device == "cuda" and not cuda_present():
        raise DeviceError("device: no CUDA GPU answers on this machine; use auto or cpu")


def star_error(reader: StarReader, check: SelfCheck) -> float:
    """The largest distance between a stored unit vector of a chunk and the reader's."""
    chunks = [check.ids[a:b] for a, b in pairwise(check.offsets.tolist())]
    return distance(star_vectors(reader, chunks, map), check.vectors)


def _star_reader(star: Star, path: str) -> StarReader:
    if path == "onnx":
        try:
            from encoder.readers.star_onnx import StarOnnx
        except ImportError:
            raise DeviceError(
                "device: cpu needs ONNX Runtime for this model; pip install onnxruntime"
            ) from None

        return StarOnnx(star.weights)
    device = path.removeprefix("torch-")
    torch = _import_torch(device)
    from encoder.readers.star_torch import StarTorch

    return StarTorch(star.weights, device, torch.float32)


def _import_torch(device: str) -> ModuleType:
    """PyTorch, where it is installed for this device."""
    try:
        import torch
    except ImportError:
        raise DeviceError(
            f"device: {device} needs PyTorch, which is not installed; pip install 'newsift[gpu]'"
        ) from None
    if device == "cuda" and not torch.cuda.is_available():
        raise DeviceError("device: PyTorch here is a CPU build; install its CUDA build or use cpu")
    return torch


def cuda_present() -> bool:
    """Whether there is an NVIDIA GPU.

    Asks NVML: importing torch is slow, and after CUDA is initialised no child can use it.
    """
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    count = ctypes.c_uint(0)
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        if nvml.nvmlInit_v2() != 0:
            return False
        answers = nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
        nvml.nvmlShutdown()
    except (OSError, AttributeError):
        return False
    return answers and count.value > 0


def check_error(backend: Backend, model: Model) -> float:
    """The largest distance between a stored unit vector and the backend's."""
    return max(
        distance(backend.forward(check.ids, check.offsets, check.side), check.vectors)
        for check in (model.check, model.article_check)
    )


def distance(vectors: F32, exact: F32) -> float:
    """The largest distance between two rows, each scaled to length 1."""
    gap = unit_rows(vectors) - unit_rows(exact)  # [texts, d]
    worst = float(np.sqrt((gap**2).sum(axis=1)).max())
    return worst if np.isfinite(worst) else float("inf")


def _kernel(model: Model, threads: int) -> Backend | None:
    """Open the kernel; log a warning and return None if it does not pass its check."""
    if model.weights.config.has_star:
        return None  # only torch runs a star
    try:
        from encoder.readers.gated_mean import GatedMeanKernel

        kernel = GatedMeanKernel(model.weights, threads)
        error = check_error(kernel, model)
        if error <= CHECK_TOLERANCE:
            return kernel
        reason = f"its vectors are off by {error:.1e} on this CPU"
    except Exception as error:  # noqa: BLE001 - an unknown CPU can fail anywhere in the compiler
        reason = one_line(f"it does not compile here ({type(error).__name__}: {error})")
    log.warning("the CPU kernel is not used: %s; the slower torch path runs instead", reason)
    return None


def _torch(model: Model, device: str, threads: int | None) -> Backend:
    torch = _import_torch(device)
    from encoder.readers.torch_backend import TorchBackend

    if threads is not None:
        torch.set_num_threads(threads)
    backend = TorchBackend(model.weights, device)
    error = check_error(backend, model)
    if error > CHECK_TOLERANCE:
        raise DeviceError(f"device: {device} computes vectors that are off by {error:.1e}")
    return backend
