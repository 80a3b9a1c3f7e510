"""The actions of this folder load a model once."""

from tests.worker.loaded_once import _loaded_once, enc

__all__ = ["_loaded_once", "enc"]
