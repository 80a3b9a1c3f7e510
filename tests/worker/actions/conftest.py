"""The same as for the commands: no proxy of the environment."""

from tests.worker.cli.conftest import _no_proxy

__all__ = ["_no_proxy"]
