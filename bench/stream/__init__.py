"""`newsift bench stream`: the worker on a broker, beside the encoder alone and an empty agent.

A `scene` is topics on one broker, a `worker` the process that reads them; `rows`, `latency` and
`memory` measure it, `run` ties it together.
"""
