"""The walk over records, compiled: for whoever reads many of them."""

import numpy as np

from encoder.support.jit import jit
from worker.kafka.batches import walk as plain
from worker.kafka.batches.header import Bytes

_walk = jit()(plain.walk)


def walk(body: Bytes, count: int, last_delta: int, most: int) -> int:
    """What `worker.kafka.batches.walk` says of a body, without the interpreter."""
    return int(_walk(np.frombuffer(body, np.uint8), count, last_delta, most))
