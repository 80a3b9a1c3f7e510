"""Registers, loads and products of int16, as numba compiles them: what posts are compared with."""
