"""The commands of this folder load a model once."""

from tests.worker.loaded_once import enc, loaded_once

__all__ = ["enc", "loaded_once"]
