"""What the kernel knows about a model at compile time: counts, and where a row's parts lie."""

from dataclasses import dataclass

from encoder.model.config import AstConfig
from encoder.simd.constants import Static
from encoder.simd.tile import HALVES, LANES, SUMS, WIDEST, Tile, up

MAX_HEADS = 64
MAX_HEAD_DIM = 64
MAX_WINDOW = 3
MAX_DIM = 512


@dataclass(frozen=True)
class Shape(Static):
    """The counts of one model, and the layout of a row of its folded table.

    A row is [query | key | values | embedding | star query] of one token, all int16. Heads are
    dealt into banks of up to 16, one lane each; an empty head fills a bank to an even number,
    because int16 products are summed in pairs and two heads make a pair of values.
    """

    heads: int
    head_dim: int
    window: int
    dim: int

    @classmethod
    def of(cls, config: AstConfig) -> "Shape":
        """The shape of a model with these settings."""
        return cls(config.heads, config.head_dim, config.window, config.dim)

    @property
    def entries(self) -> int:
        """Entries of a ring context: the window, the token itself among them once, and the relay.

        The token's own vector stands in the context twice; the second is a factor of two.
        """
        return 2 * self.window + 2

    @property
    def banks(self) -> int:
        """How many registers it takes to give every head a lane."""
        return up(self.heads, LANES) // LANES

    @property
    def bank_heads(self) -> int:
        """Heads in a bank, the empty ones among them."""
        return up(up(self.heads, self.banks) // self.banks, 2)

    @property
    def slots(self) -> int:
        """Heads in all banks, the empty ones among them."""
        return self.banks * self.bank_heads

    @property
    def pairs(self) -> int:
        """Pairs of heads."""
        return self.slots // 2

    @property
    def groups(self) -> int:
        """Groups into which a bank's heads are dealt so that queries and keys waste least room."""
        return min((1, 2), key=lambda groups: groups * self._steps(groups))

    @property
    def group_heads(self) -> int:
        """Heads of one group: lane i of a group's registers belongs to head i % group_heads."""
        return up(self.bank_heads, self.groups) // self.groups

    @property
    def parts(self) -> int:
        """Into how many parts, side by side in a register, a head's dimensions are cut."""
        return LANES // self.group_heads

    @property
    def steps(self) -> int:
        """Registers of a group: each lane of each holds two dimensions of its head."""
        return self._steps(self.groups)

    def _steps(self, groups: int) -> int:
        parts = LANES // (up(self.bank_heads, groups) // groups)
        return up(up(self.head_dim, 2) // 2, parts) // parts

    @property
    def bank_vectors(self) -> int:
        """Registers of one bank's queries, or keys."""
        return self.groups * self.steps

    @property
    def bank_size(self) -> int:
        """int16 of one bank's queries, or keys."""
        return self.bank_vectors * HALVES

    @property
    def blocks(self) -> int:
        """Into how many blocks the dimensions are cut so that a block's sums stay in registers."""
        return up(up(self.dim, LANES) // LANES, 24) // 24

    @property
    def block_vectors(self) -> int:
        """float32 registers of one block of dimensions."""
        return up(up(self.dim, LANES) // LANES, self.blocks) // self.blocks

    @property
    def block_width(self) -> int:
        """Dimensions of a block."""
        return self.block_vectors * LANES

    @property
    def width(self) -> int:
        """Dimensions of a vector, padded with zeros to whole registers."""
        return self.blocks * self.block_width

    @property
    def query_width(self) -> int:
        """The star's queries of all heads side by side, padded to whole registers."""
        return up(self.heads * self.head_dim, LANES)

    @property
    def value_width(self) -> int:
        """The star's values of one head, padded to whole registers."""
        return up(self.head_dim, LANES)

    @property
    def inner(self) -> int:
        """Heads times head_dim."""
        return self.heads * self.head_dim

    @property
    def key_at(self) -> int:
        """Where a row's keys begin."""
        return self.banks * self.bank_size

    @property
    def value_at(self) -> int:
        """Where a row's values begin: per pair of heads [width, 2]."""
        return 2 * self.key_at

    @property
    def embedding_at(self) -> int:
        """Where a row's embedding begins."""
        return self.value_at + self.pairs * 2 * self.width

    @property
    def row(self) -> int:
        """int16 of a row, in whole cache lines."""
        return up(self.embedding_at + self.width + self.query_width, HALVES)

    @property
    def pair_bytes(self) -> int:
        """Bytes of the values of one pair of heads."""
        return 4 * self.width

    @property
    def fetch_size(self) -> int:
        """int16 of an eighth of a row up to its embedding, in whole cache lines."""
        return up(up(self.embedding_at, 8) // 8, HALVES)

    @property
    def average_blocks(self) -> int:
        """Blocks into which keys and values are cut to be averaged; a vector takes two sums."""
        return up((self.embedding_at - self.key_at) // HALVES, SUMS // 2) // (SUMS // 2)

    @property
    def average_vectors(self) -> int:
        """Registers of one such block."""
        vectors = (self.embedding_at - self.key_at) // HALVES
        return up(vectors, self.average_blocks) // self.average_blocks

    @property
    def average_size(self) -> int:
        """int16 of one such block."""
        return self.average_vectors * HALVES

    @property
    def sum_vectors(self) -> int:
        """float32 registers of embedding and star query summed in one sweep over a text."""
        return min(20, (self.width + self.query_width) // LANES)

    @property
    def wide(self) -> Tile:
        """The tile for products as wide as a vector."""
        return Tile(min(WIDEST, self.width // LANES))

    @property
    def key_panels(self) -> int:
        """Size of the panels of one head's keys, head_dim × width."""
        return self.head_dim * up(self.width, self.wide.width)

    @property
    def value_panels(self) -> int:
        """Size of the panels of one head's values, dim × value_width."""
        return self.dim * up(self.value_width, self.narrow.width)

    @property
    def narrow(self) -> Tile:
        """The tile for products as wide as a head's values."""
        return Tile(min(WIDEST, self.value_width // LANES))
