"""Registers, loads and products of integers, as numba compiles them.

Nothing here knows a model: `encoder.backends.kernel` is written in these words.
"""
