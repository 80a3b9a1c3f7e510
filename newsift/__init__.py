"""newsift in a few lines of Python: posts and articles in, what matches out.

Posts go to `encoder`, articles become seeds in `worker.seeds`, and `worker.match` compares them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from newsift.matching import match

__all__ = ["match"]


def __getattr__(name: str) -> Any:
    """`match`, loaded when it is first asked for."""
    if name != "match":
        raise AttributeError(f"module 'newsift' has no attribute {name!r}")
    from newsift.matching import match

    globals()["match"] = match
    return match
