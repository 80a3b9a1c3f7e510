"""The folded, quantised forward pass of a model of one layer, for the CPU, compiled by numba."""

from encoder.backends.kernel.backend import KernelBackend, supported

__all__ = ["KernelBackend", "supported"]
