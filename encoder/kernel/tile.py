"""The size of a register, and of the part of a matrix that fits into registers."""

from dataclasses import dataclass

from encoder.kernel.static import Static

LANES = 16  # float32 or int32 in a register of 512 bits
HALVES = 32  # int16 in the same


def up(value: int, step: int) -> int:
    """`value` rounded up to a multiple of `step`."""
    return -(-value // step) * step


@dataclass(frozen=True)
class Tile(Static):
    """The part of a matrix product that stays in registers: `rows` rows of `vectors` registers."""

    vectors: int

    @property
    def rows(self) -> int:
        """At most 24 of the 32 registers are sums; the rest hold factors."""
        return min(24 // self.vectors, 12)

    @property
    def registers(self) -> int:
        """How many registers the sums take."""
        return self.rows * self.vectors

    @property
    def width(self) -> int:
        """Columns of the tile."""
        return self.vectors * LANES
