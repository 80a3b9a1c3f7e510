"""The reason why a record batch is not read."""

from encoder.errors import NewsiftError
from worker.posts.outcome import Reason


class UnreadableError(NewsiftError):
    """A record batch that is damaged or too large."""

    def __init__(self, why: Reason, detail: str) -> None:
        super().__init__(detail)
        self.why, self.detail = why, detail


def bad(detail: str) -> UnreadableError:
    """A batch that cannot be read."""
    return UnreadableError(Reason.BAD_BATCH, detail)


def too_large(limit: int) -> UnreadableError:
    """A batch that needs more memory than allowed."""
    return UnreadableError(
        Reason.BATCH_BYTES, f"the record batch has more than {limit} bytes once it is unpacked"
    )
