"""How all that the desk stands on is doing, looked at every few seconds while somebody looks.

`part` is one thing that is looked at, by a thread of its own, so that one that is away hides no
other; `broker` and `workers` ask; `letters` follows the dead letters; `words` says what to do.
"""
