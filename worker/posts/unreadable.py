"""What is said of a record batch that is not read: why, and which offsets were passed over."""

from dataclasses import dataclass

from encoder.errors import NewsiftError
from worker.posts.outcome import Reason


class UnreadableError(NewsiftError):
    """A record batch that is not read: damaged, or larger than one may be."""

    def __init__(self, why: Reason, detail: str) -> None:
        super().__init__(detail)
        self.why, self.detail = why, detail


def bad(detail: str) -> UnreadableError:
    """A batch that cannot be read by anybody."""
    return UnreadableError(Reason.BAD_BATCH, detail)


def too_large(limit: int) -> UnreadableError:
    """A batch that takes more memory than one may."""
    return UnreadableError(
        Reason.BATCH_BYTES, f"the record batch has more than {limit} bytes once it is unpacked"
    )


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The one message that stands for a whole batch, at the offset of its last record."""

    topic: str
    partition: int
    first: int
    offset: int
    timestamp: int
    why: Reason
    detail: str
    key: None = None
    value: None = None
    headers: tuple[()] = ()

    @property
    def count(self) -> int:
        """How many offsets it stands for."""
        return self.offset - self.first + 1

    @property
    def offsets(self) -> str:
        """The offsets it stands for."""
        return f"{self.first}-{self.offset}"

    def __str__(self) -> str:
        return (
            f"offsets {self.offsets} of {self.topic}, partition {self.partition}, are passed over "
            f"({self.why}): {self.detail}"
        )
