"""Faust as its manual shows it: an agent that takes one event after the other and does nothing.

`newsift bench stream` runs it as `faust -A bench.empty_agent worker`; it prints its own rate.
"""

import os
import time

import faust

WARM = 2_000

app = faust.App(
    f"empty-{time.time_ns()}",
    broker=f"kafka://{os.environ['BENCH_KAFKA']}",
    topic_disable_leader=False,
    web_enabled=False,
)
posts = app.topic(os.environ["BENCH_TOPIC"], value_type=bytes, value_serializer="raw")
last = int(os.environ["BENCH_POSTS"])


@app.agent(posts)
async def nothing(stream: "faust.StreamT[bytes]") -> None:
    """Count the posts, print their rate, and end."""
    count, began = 0, 0.0
    async for _ in stream:
        count += 1
        if count == WARM:
            began = time.perf_counter()
        elif count == last:
            rate = (count - WARM) / (time.perf_counter() - began)
            # Faust puts a logger in the place of sys.stdout.
            os.write(1, f"rate {rate}\n".encode())
            os._exit(0)
