"""Text to unit vectors: the Adaptive Siamese Transformer and a sparse vector of words."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from encoder.errors import DeviceError, InputError, MismatchError, ModelError, NewsiftError

if TYPE_CHECKING:
    from encoder.embeddings import Embeddings
    from encoder.encoder import Encoder, load

__all__ = [
    "DeviceError",
    "Embeddings",
    "Encoder",
    "InputError",
    "MismatchError",
    "ModelError",
    "NewsiftError",
    "load",
]

# Loaded on first use, so that an error class or `newsift --help` costs no compiler.
_LATE = {
    "Embeddings": "encoder.embeddings",
    "Encoder": "encoder.encoder",
    "load": "encoder.encoder",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'encoder' has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)
