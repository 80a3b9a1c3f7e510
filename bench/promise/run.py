"""How often each way to a threshold breaks its promise, and what it finds."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np

import encoder
from bench.measure import Say
from bench.part import Part
from bench.promise.streams import Stream, crises, flat
from bench.promise.ways import WAYS, Promise

ODDS = (10, 100, 1_000)
HEADER = ("stream", "on topic", "way", "given %", "broken %", "labels", "recall", "oracle's")
REMARKS = (
    "Given: a threshold came out. Broken: it did, and the precision of the whole stream above it",
    "is below what was promised; an empty top counts as broken. Both of all repetitions. Recall:",
    "of all posts on the event, 0 where no threshold came out; the oracle knows every label.",
)


class Kept(NamedTuple):
    """How one way fared on one stream: shares of all repetitions in per cent, and means."""

    stream: str
    odds: str
    way: str
    given: float
    broken: float
    labels: float
    recall: float
    oracle: float


def measure_promise(data: Path, model: str, repetitions: int, promise: Promise, say: Say) -> Part:
    """Simulate every way on every stream."""
    enc = encoder.load(model, device="cpu")
    streams = [flat(), *crises(enc, data, ODDS)]
    promised = f"Precision {promise.precision:g} at {promise.confidence:g}"
    title = f"{promised}, {repetitions:,} repetitions, model {model}"
    return Part("promise", title, HEADER, simulate(streams, repetitions, promise, say), REMARKS)


def simulate(streams: Iterable[Stream], repetitions: int, promise: Promise, say: Say) -> list[Kept]:
    """Each way on the same streams, drawn so many times."""
    rows = []
    for stream in streams:
        oracle = stream.recall(stream.oracle(promise.precision))
        for name, way in WAYS.items():
            say(f"{stream.name}, {stream.odds}: {name}")
            random = np.random.default_rng(crc32(f"{stream.name} {stream.odds}".encode()))
            found = [way(*stream.draw(random), promise, random) for _ in range(repetitions)]
            given = [one.threshold for one in found if one.threshold is not None]
            broken = sum(stream.precision(threshold) < promise.precision for threshold in given)
            shares = 100 * len(given) / repetitions, 100 * broken / repetitions
            labels = sum(one.labels for one in found) / repetitions
            recall = sum(map(stream.recall, given)) / repetitions
            rows.append(Kept(stream.name, stream.odds, name, *shares, labels, recall, oracle))
    return rows
