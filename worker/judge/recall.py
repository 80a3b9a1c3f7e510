"""How many of an event's posts a threshold finds, of those that score above a floor."""

import math

from numpy.typing import ArrayLike

from encoder.errors import InputError
from worker.judge.distributions import chi_square_quantile, clopper_pearson
from worker.judge.promise import F64, Bools, finite, labelled, promised

Interval = tuple[float, float, float]  # its low end, the value itself, its high end


def recall_interval(
    scores: ArrayLike,
    labels: ArrayLike,
    weights: ArrayLike,
    threshold: float,
    floor: float,
    confidence: float = 0.9,
) -> tuple[float, float]:
    """The interval of the recall of a threshold among what scores `floor` or more.

    A weight says how many posts its label stands for: 1 / the probability that it was drawn.
    """
    found, right = labelled(scores, labels)
    promised(0.5, confidence)
    weight = _weights(weights, len(found))
    _ordered(floor, threshold)
    above, below = found >= threshold, (found >= floor) & (found < threshold)
    if not right[above].any():
        return 0.0, 1.0
    alpha = 1 - confidence
    hits = _share_of_draws(weight[above], right[above], alpha)
    misses = _sum_of_draws(weight[below], right[below], alpha)
    low = 1 / (1 + _upper_ratio(misses, hits)) if below.any() or floor == threshold else 0.0
    return low, 1 / (1 + _lower_ratio(misses, hits))


def share_interval(labels: ArrayLike, weights: ArrayLike, confidence: float = 0.9) -> Interval:
    """Which share of all posts is on the event, by the labels of some, at least one.

    Draws of unequal probability count as the fewer equal ones that would say as much (Kish).
    """
    weight = finite("weights", weights)
    _, right = labelled(weight, labels)
    promised(0.5, confidence)
    return _share(_weights(weight, len(right)), right, 1 - confidence)


def _share(weight: F64, right: Bools, alpha: float) -> Interval:
    """The share by Clopper and Pearson."""
    total, n = weight.sum(), weight.sum() ** 2 / (weight**2).sum()
    share = float(weight[right].sum() / total)
    low, high = clopper_pearson(share * float(n), float(n), alpha)
    return low, share, high


def _share_of_draws(weight: F64, right: Bools, alpha: float) -> Interval:
    """How many posts above the threshold are on the event."""
    total = float(weight.sum())
    low, share, high = _share(weight, right, alpha)
    return total * low, total * share, total * high


def _sum_of_draws(weight: F64, right: Bools, alpha: float) -> Interval:
    """How many posts below the threshold are on the event, by Fay and Feuer."""
    total, variance = weight[right].sum(), (weight[right] ** 2).sum()
    low = _gamma_quantile(alpha / 2, total, variance) if total else 0.0
    most = weight.max(initial=0.0)
    high = _gamma_quantile(1 - alpha / 2, total + most, variance + most**2) if most else 0.0
    return low, float(total), high


def _gamma_quantile(share: float, mean: float, variance: float) -> float:
    return float(variance / (2 * mean) * chi_square_quantile(share, 2 * mean**2 / variance))


def _upper_ratio(misses: Interval, hits: Interval) -> float:
    """The high end of misses per hit (MOVER, Donner and Zou)."""
    _, b, b_high = misses
    t_low, t, _ = hits
    root = math.sqrt(max(0.0, (b * t) ** 2 - b_high * t_low * (2 * b - b_high) * (2 * t - t_low)))
    return (b * t + root) / (t_low * (2 * t - t_low))


def _lower_ratio(misses: Interval, hits: Interval) -> float:
    """The low end; written so that nothing is divided by zero where the high end of t is 2t."""
    b_low, b, _ = misses
    _, t, t_high = hits
    if not b:
        return 0.0
    root = math.sqrt(max(0.0, (b * t) ** 2 - b_low * t_high * (2 * b - b_low) * (2 * t - t_high)))
    return b_low * (2 * b - b_low) / (b * t + root)


def _weights(weights: ArrayLike, count: int) -> F64:
    found = finite("weights", weights)
    if len(found) != count:
        raise InputError(f"weights: {len(found)} of them and {count} scores; give each one")
    if not (found > 0).all():
        raise InputError("weights: one is not above 0; give 1 / the probability of the draw")
    return found


def _ordered(floor: float, threshold: float) -> None:
    for name, value in (("floor", floor), ("threshold", threshold)):
        if not math.isfinite(value):
            raise InputError(f"{name}: {value!r} is no finite number")
    if floor > threshold:
        raise InputError(f"floor: {floor:g} is above the threshold {threshold:g}; lower it")
