"""What the kernel knows about a model at compile time: counts, and where a row's parts lie."""

from typing import Self

from encoder.model.config import AstConfig
from encoder.simd.constants import Static
from encoder.simd.tile import HALVES, LANES, SUMS, WIDEST, Tile, up

MAX_HEADS = 64
MAX_HEAD_DIM = 64
MAX_WINDOW = 3
MAX_DIM = 512


def parts_of(count: int, size: int) -> int:
    """Into how many parts of at most this size something is cut."""
    return -(-count // size)


class Shape(Static):
    """The counts of one model, and the layout of a row of its folded table.

    A row is [query | key | values | embedding | star query] of one token, all int16. Heads are
    dealt into banks of up to 16, one lane each; an empty head fills a bank to an even number,
    because int16 products are summed in pairs and two heads make a pair of values.
    """

    def __init__(self, heads: int, head_dim: int, window: int, dim: int) -> None:
        self.heads, self.head_dim, self.window, self.dim = heads, head_dim, window, dim
        # A ring context: the window, the token itself among it once, and the relay. The token's
        # own vector stands in the context twice; the second is a factor of two.
        self.entries = 2 * window + 2
        self._deal_heads()
        self._pad_vectors()
        self._lay_out_row()
        self._cut_sums()

    @classmethod
    def of(cls, config: AstConfig) -> Self:
        """The shape of a model with these settings."""
        return cls(config.heads, config.head_dim, config.window, config.dim)

    def __repr__(self) -> str:
        return f"Shape({self.heads}, {self.head_dim}, {self.window}, {self.dim})"

    def _deal_heads(self) -> None:
        """Heads to banks, and within a bank to groups so that queries and keys waste least room."""
        self.banks = parts_of(self.heads, LANES)
        self.bank_heads = up(parts_of(self.heads, self.banks), 2)
        self.slots = self.banks * self.bank_heads  # heads, the empty ones among them
        self.pairs = self.slots // 2
        self.groups = min((1, 2), key=lambda groups: groups * self._dealt(groups)[2])
        # Lane i of a group's registers belongs to head i % group_heads, whose dimensions are cut
        # into `parts` side by side; each lane of each of `steps` registers holds two of them.
        self.group_heads, self.parts, self.steps = self._dealt(self.groups)
        self.bank_vectors = self.groups * self.steps  # registers of a bank's queries, or keys
        self.bank_size = self.bank_vectors * HALVES

    def _dealt(self, groups: int) -> tuple[int, int, int]:
        heads = parts_of(self.bank_heads, groups)
        parts = LANES // heads
        return heads, parts, parts_of(parts_of(self.head_dim, 2), parts)

    def _pad_vectors(self) -> None:
        """A vector in blocks whose sums stay in registers; all is padded to whole registers."""
        vectors = parts_of(self.dim, LANES)
        self.blocks = parts_of(vectors, 24)
        self.block_vectors = parts_of(vectors, self.blocks)
        self.block_width = self.block_vectors * LANES
        self.width = self.blocks * self.block_width
        self.inner = self.heads * self.head_dim
        self.result_width = up(self.inner, self.block_width)
        self.query_width = up(self.inner, LANES)  # the star's queries of all heads
        self.value_width = up(self.head_dim, LANES)  # the star's values of one head
        self.wide = Tile(min(WIDEST, self.width // LANES))
        self.narrow = Tile(min(WIDEST, self.value_width // LANES))
        self.key_panels = self.head_dim * up(self.width, self.wide.width)  # size of one head's
        self.value_panels = self.dim * up(self.value_width, self.narrow.width)

    def _lay_out_row(self) -> None:
        """Where the parts of a row begin, in int16; a row takes whole cache lines."""
        self.key_at = self.banks * self.bank_size
        self.value_at = 2 * self.key_at  # per pair of heads [width, 2]
        self.embedding_at = self.value_at + self.pairs * 2 * self.width
        self.row = up(self.embedding_at + self.width + self.query_width, HALVES)
        self.pair_bytes = 4 * self.width
        self.fetch_size = up(parts_of(self.embedding_at, 8), HALVES)  # an eighth of what is fetched

    def _cut_sums(self) -> None:
        """How much of a row is summed in one sweep: keys and values take two sums a register."""
        vectors = (self.embedding_at - self.key_at) // HALVES
        self.average_blocks = parts_of(vectors, SUMS // 2)
        self.average_vectors = parts_of(vectors, self.average_blocks)
        self.average_size = self.average_vectors * HALVES
        self.sum_vectors = min(20, (self.width + self.query_width) // LANES)
