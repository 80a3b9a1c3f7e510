"""newsift in a few lines of Python: posts and articles in, what matches out.

Posts go to `encoder`, articles become seeds in `worker.seeds`, and `worker.match` compares them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from newsift.matching import Sieve, match

__all__ = ["Sieve", "match"]


def __getattr__(name: str) -> Any:
    """`match` and `Sieve`, loaded when they are first asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'newsift' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module("newsift.matching"), name)
    return value
