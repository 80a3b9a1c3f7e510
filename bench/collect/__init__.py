"""`newsift bench collect`: the collector between a local Jetstream and a broker.

`jetstream` is the server that replays events, in a process of its own, `run` measures.
"""
