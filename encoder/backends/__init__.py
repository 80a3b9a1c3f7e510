"""The code that computes dense vectors from token ids.

`choose` takes the kernel on a CPU and torch on a GPU.
"""
