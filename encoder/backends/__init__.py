"""Ids in, dense vectors out: which code computes them, and the code that torch runs.

`choose` takes the kernel on a CPU and torch on a GPU. The vectors go on to `encoder.Embeddings`.
"""
