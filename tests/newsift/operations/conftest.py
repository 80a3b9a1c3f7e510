"""The same as for the commands: no proxy of the environment."""

from tests.newsift.cli.conftest import no_proxy

__all__ = ["no_proxy"]
