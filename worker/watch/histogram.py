"""A histogram that takes the values of a whole batch at once, as one by one costs too much."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector


class BatchHistogram(Collector):
    """Counts of values by bucket, rendered as a Prometheus histogram."""

    def __init__(self, name: str, says: str, bounds: Sequence[float]) -> None:
        self._name = name
        self._says = says
        self._bounds = np.asarray(bounds, np.float64)
        self._counts: NDArray[np.int64] = np.zeros(len(bounds) + 1, np.int64)
        self._sum = 0.0

    def observe(self, values: ArrayLike) -> None:
        """Count every finite value in the first bucket whose bound is not below it."""
        found = np.asarray(values, np.float64).ravel()
        found = found[np.isfinite(found)]
        bucket = np.searchsorted(self._bounds, found, side="left")
        self._counts = self._counts + np.bincount(bucket, minlength=len(self._counts))
        self._sum += float(found.sum())

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The counts so far, cumulative as Prometheus wants them."""
        names = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        cumulative = np.cumsum(self._counts).tolist()
        family = HistogramMetricFamily(self._name, self._says)
        family.add_metric([], list(zip(names, cumulative, strict=True)), self._sum)
        yield family
