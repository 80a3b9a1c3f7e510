"""What waits in a partition of posts, as the worker and `newsift status` count it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backlog:
    """Where a partition begins, up to where it is committed, and where it ends."""

    first: int
    committed: int | None
    end: int  # the last stable offset, where posts are read committed

    @property
    def done(self) -> int:
        """How far the workers are: a new group begins with the first post that is there."""
        return max(self.committed or 0, self.first)

    @property
    def lag(self) -> int:
        """Posts that wait, with what markers and gaps lie between them."""
        return max(self.end - self.done, 0)
