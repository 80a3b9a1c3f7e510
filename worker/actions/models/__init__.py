"""Models that do not ship: packed as one file, brought to this machine, checked, and taken away.

A file or address goes through `adding`, which asks `download` and `archive`, and lies then where
`encoder.support.named` finds it by its name.
"""
