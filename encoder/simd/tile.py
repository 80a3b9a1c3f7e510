"""The size of a register, and of the part of a matrix that fits into registers."""

from dataclasses import dataclass

from llvmlite import binding

from encoder.simd.constants import Static

LANES = 16  # float32 or int32 in a register of 512 bits
HALVES = 32  # int16 in the same

# How many vectors of 512 bits can be summed up without putting one away: three quarters of the
# registers, the others being for factors. There are 32 with AVX-512, else 16 of half the size.
SUMS = 24 if binding.get_host_cpu_features().get("avx512f") else 6
WIDEST = 4 if SUMS == 24 else 2


def up(value: int, step: int) -> int:
    """`value` rounded up to a multiple of `step`."""
    return -(-value // step) * step


@dataclass(frozen=True)
class Tile(Static):
    """The part of a matrix product that stays in registers: `rows` rows of `vectors` registers."""

    vectors: int

    @property
    def rows(self) -> int:
        """As many as there are registers for."""
        return min(SUMS // self.vectors, 12)

    @property
    def registers(self) -> int:
        """How many registers the sums take."""
        return self.rows * self.vectors

    @property
    def width(self) -> int:
        """Columns of the tile."""
        return self.vectors * LANES
