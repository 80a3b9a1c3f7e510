"""Damaged input without end: `python -m tests.hostile.fuzz --seconds 60 [--target posts]`."""
