"""As for the commands: no proxy of the environment, and one model for all."""

from tests.newsift.cli.conftest import no_proxy
from tests.worker.shared_encoder import enc, loaded_once

__all__ = ["enc", "loaded_once", "no_proxy"]
