"""α-entmax on registers, many rows at once.

p_i = u_i^β with u = 1 + (α−1)(z − t), β = 1/(α−1) and z shifted so that its maximum is 0. Not Σ p =
1 but (Σ p)^(α−1) = 1 is solved for t: for α ≤ 2 that is convex in t, so that Newton's steps from t
= 0 only ever rise to the root, without a bracket, and there are few of them: two to four for a
ring. Below, `scale` is α−1 and t is kept in units of u.
"""

from typing import Any

from numpy import float32, int32

from encoder.simd.across import double_own, highest_lane, largest, sum_registers
from encoder.simd.lanewise import as_bits, from_bits, maximum, to_float, to_int, where_positive
from encoder.simd.loads import filled, load, store
from encoder.simd.tile import LANES
from encoder.support.jit import jit

TOLERANCE = float32(2e-3)  # the correction after the last step squares it
MOST_STEPS = 12
SMALL = float32(1e-30)
ABSENT = float32(-1e30)  # the logit of an entry that is not there
ONE = float32(1)
THREE_QUARTERS = int32(0x3F400000)  # the bits of 0.75
FRACTION_BITS = int32(23)
EXPONENT_BIAS = int32(127)
LOWEST_EXPONENT = float32(-126)
HALF = float32(0.5)
# Chebyshev fits: log2(1+r)/r on [-1/4, 1/2], and 2^f on [-1/2, 1/2], both right to 1e-7.
L0, L1, L2 = float32(1.44269502), float32(-0.721348464), float32(0.480902225)
L3, L4, L5 = float32(-0.36057657), float32(0.288186312), float32(-0.242701903)
L6, L7, L8 = float32(0.216358557), float32(-0.174443781), float32(0.0782798007)
E0, E1, E2 = float32(1.00000012), float32(0.693147182), float32(0.240221068)
E3, E4, E5 = float32(0.0555032715), float32(0.00967603736), float32(0.00134004327)


@jit(fast=True, inline=True)
def log2(u: Any) -> Any:
    """log2 of positive floats: the exponent, and a polynomial in the mantissa around 1."""
    bits = as_bits(u)
    exponent = (bits - THREE_QUARTERS) >> FRACTION_BITS
    r = from_bits(bits - (exponent << FRACTION_BITS)) - ONE
    p = r * L8 + L7
    p = p * r + L6
    p = p * r + L5
    p = p * r + L4
    p = p * r + L3
    p = p * r + L2
    p = p * r + L1
    p = p * r + L0
    return p * r + to_float(exponent)


@jit(fast=True, inline=True)
def exp2(y: Any) -> Any:
    """2^y for y ≤ 0: nothing here needs more, and cutting towards zero then rounds y − ½."""
    y = maximum(y, LOWEST_EXPONENT)
    whole = to_int(y - HALF)
    f = y - to_float(whole)
    p = f * E5 + E4
    p = p * f + E3
    p = p * f + E2
    p = p * f + E1
    p = p * f + E0
    return p * from_bits((whole + EXPONENT_BIAS) << FRACTION_BITS)


@jit(fast=True, inline=True)
def step(mass: Any, slope: Any, scale: Any) -> Any:
    """Newton's step on mass^scale = 1; the slope is Σ u^(β−1) = Σ p/u."""
    return mass * (ONE - exp2(log2(mass) * (float32(-1) * scale))) / slope


@jit(fast=True, inline=True)
def unsolved(mass: Any) -> bool:
    """Whether a lane's probabilities do not yet add up to 1 well enough."""
    return bool(highest_lane(maximum(mass - ONE, ONE - mass)) > TOLERANCE)


@jit(fast=True, inline=True)
def ring_entmax(own: Any, z: Any, scale: Any) -> Any:
    """16 rows, one a lane, of as many entries as z has registers; entry `own` counts twice.

    Returns the weights, that of `own` already doubled; each row adds up to 1.
    """
    power = ONE / scale
    u = (z - largest(z)) * scale + ONE
    t = filled(1, float32(0))
    steps = 0
    while True:
        rest = maximum(u - t, float32(0))
        p = where_positive(rest, exp2(log2(rest) * power))
        slopes = p / maximum(rest, SMALL)
        mass = sum_registers(double_own(own, p))
        slope = sum_registers(double_own(own, slopes))
        if steps >= MOST_STEPS or not unsolved(mass):
            break
        steps += 1
        t = t + step(mass, slope, scale)
    p = double_own(own, maximum(p - slopes * ((mass - ONE) / slope), float32(0)))
    return p * (ONE / sum_registers(p))


@jit(fast=True)
def star_entmax(z: Any, p: Any, slopes: Any, at: int, count: int, scale: Any) -> None:
    """16 heads, one a lane, of `count` entries in z[at:]; the weights replace z."""
    power = ONE / scale
    top = filled(1, ABSENT)
    for i in range(count):
        top = maximum(top, load(1, z, at + i * LANES))
    for i in range(count):
        place = at + i * LANES
        store(z, place, (load(1, z, place) - top) * scale + ONE)
    t = filled(1, float32(0))
    steps = 0
    while True:
        mass = filled(1, float32(0))
        slope = filled(1, float32(0))
        for i in range(count):
            rest = maximum(load(1, z, at + i * LANES) - t, float32(0))
            power_of = where_positive(rest, exp2(log2(rest) * power))
            part = power_of / maximum(rest, SMALL)
            mass = mass + power_of
            slope = slope + part
            store(p, i * LANES, power_of)
            store(slopes, i * LANES, part)
        if steps >= MOST_STEPS or not unsolved(mass):
            break
        steps += 1
        t = t + step(mass, slope, scale)
    excess = (mass - ONE) / slope
    total = filled(1, float32(0))
    for i in range(count):
        value = maximum(load(1, p, i * LANES) - load(1, slopes, i * LANES) * excess, float32(0))
        total = total + value
        store(z, at + i * LANES, value)
    for i in range(count):
        store(z, at + i * LANES, load(1, z, at + i * LANES) / total)
