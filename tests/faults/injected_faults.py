"""Faults inside a worker's own process, scripted from outside by one environment variable.

The harness puts a `sitecustomize` that calls `install` on the worker's path, so the command under
test stays `faust -A worker worker`. A fault writes its proof before it acts, on the disk, so
that a story can tell a fault survived from a fault that never came.
"""

import itertools
import json
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

VARIABLE = "NEWSIFT_TEST_FAULT"
UNBEARABLE = "unbearable"  # a post whose text holds this never fits into memory
INFINITE = "infinite"  # one whose embedding is not a number
UNLUCKY = "unlucky"  # one that makes the encoder raise
SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "stop": signal.SIGSTOP}


class InjectedError(Exception):
    """An error that no line of the worker expects."""


class Fault:
    def __init__(self, script: dict[str, Any]) -> None:
        self._at, self._nth, self._do = script.get("at"), script.get("nth", 1), script.get("do")
        self._room = script.get("room", 10**9)  # so many posts fit into memory at once
        self._unlucky, self._infinite = script.get("unlucky", False), script.get("infinite", False)
        self._slow_s, self._last = script.get("slow_s", 0.0), self._nth + script.get("times", 1) - 1
        # What is committed early has to be sent.
        self._linger_s = 1.0 if script.get("early") else 0.0
        self._proof = Path(script["proof"])
        self._reached: Counter[str] = Counter()

    def reached(self, boundary: str) -> None:
        self._reached[boundary] += 1
        if boundary == self._at and self._nth <= self._reached[boundary] <= self._last:
            self.prove(f"{self._do} at {boundary}")
            time.sleep(self._linger_s)
            self._act()

    def embed(self, posts: Any, enc: Any, texts: Sequence[str]) -> Any:
        if len(texts) > self._room or any(UNBEARABLE in text for text in texts):
            self.prove("memory" if len(texts) > self._room else UNBEARABLE)
            raise MemoryError
        if self._unlucky and any(UNLUCKY in text for text in texts):
            self.prove(UNLUCKY)
            raise InjectedError("the encoder failed, as the test wanted")
        made = posts(enc, texts)
        wrong = [row for row, text in enumerate(texts) if INFINITE in text]
        if self._infinite and wrong:
            self.prove(INFINITE)
            dense = made.dense.copy()
            dense[wrong] = float("nan")
            made = replace(made, dense=dense)
        return made

    def prove(self, what: str) -> None:
        with self._proof.open("a", encoding="utf-8") as file:
            file.write(f"{what}\n")
            file.flush()
            os.fsync(file.fileno())

    def _act(self) -> None:
        if self._do == "raise":
            raise InjectedError("an error at a boundary, as the test wanted")
        if self._do == "sleep":
            time.sleep(self._slow_s)
            return
        os.kill(os.getpid(), SIGNALS[str(self._do)])


def install() -> None:
    if VARIABLE not in os.environ:
        return
    from encoder.encoder import Encoder
    from worker import crashpoint
    from worker.kafka import delivery

    script = json.loads(os.environ[VARIABLE])
    fault = Fault(script)
    if script.get("early"):
        commit_early()
    if "clock_s" in script:
        set_clock(lambda: float(script["clock_s"]))
        fault.prove(f"clock {script['clock_s']:+} s")
    if "jumps_s" in script:
        jump_clock(fault, script["jumps_s"])
    if "refused_s" in script:
        delivery.MAX_REFUSED_S = script["refused_s"]
    if "poll_s" in script:
        hurry_polls(script["poll_s"])
    if "via" in script:
        reroute(*script["via"])
    crashpoint.set_hook(fault.reached)
    reader = script.get("reader", "skim")
    method = getattr(Encoder, reader)

    def embed(enc: Encoder, texts: Any, *, threads: int | None = None) -> Any:
        return fault.embed(partial(method, threads=threads), enc, list(texts))

    setattr(Encoder, reader, embed)


def set_clock(ahead: Callable[[], float]) -> None:
    from aiokafka.producer.message_accumulator import BatchBuilder

    seconds, nanoseconds, append = time.time, time.time_ns, BatchBuilder.append
    time.time = lambda: seconds() + ahead()
    time.time_ns = lambda: nanoseconds() + round(ahead() * 1e9)

    def stamped(own: Any, *, timestamp: int | None, **given: Any) -> Any:
        """What aiokafka does in C, where this clock is not seen."""
        now = round(time.time() * 1000)
        return append(own, timestamp=now if timestamp is None else timestamp, **given)

    BatchBuilder.append = stamped


def jump_clock(fault: Fault, jumps_s: Sequence[float]) -> None:
    """At each SIGRTMIN the clock goes so far ahead of the true time as the next of these says."""
    ahead, jumps = [0.0], itertools.cycle(jumps_s)
    set_clock(lambda: ahead[0])

    def jump(_number: int, _frame: object) -> None:
        ahead[0] = next(jumps)
        fault.prove(f"clock {ahead[0]:+g} s")

    signal.signal(signal.SIGRTMIN, jump)


def hurry_polls(poll_s: float) -> None:
    """Have every consumer leave its group where it does not poll for so long."""
    from aiokafka import AIOKafkaConsumer

    init, requests = AIOKafkaConsumer.__init__, {"max_poll_interval_ms": round(poll_s * 1000)}
    AIOKafkaConsumer.__init__ = lambda own, *topics, **given: init(own, *topics, **given | requests)


def reroute(old: int, new: int) -> None:
    """Take every connection to one port of this machine to another instead."""
    connect = socket.socket.connect

    def through(own: socket.socket, address: Any) -> None:
        connect(own, (address[0], new) if address[1] == old else address)

    socket.socket.connect = through  # type: ignore[method-assign,assignment]


def commit_early() -> None:
    """Break the worker's promise: commit what has only been begun, as many systems do."""
    from worker.stream.ledger import Ledger, Offsets

    def committable(ledger: Ledger) -> Offsets:
        ends: Offsets = {}
        for batch in ledger._batches:
            ends |= batch.ends if batch.taken else {}
        return ends

    Ledger.committable = committable  # type: ignore[method-assign,assignment]
