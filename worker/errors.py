"""Errors of the stream, as branches of the encoder's tree. RunErrors exit with 1, others with 2."""

from encoder.errors import NewsiftError


class ConfigError(NewsiftError, ValueError):
    """The message names the file, the key, the value and the remedy."""


class AccessError(NewsiftError):
    """The broker or a platform refuses: login, certificate, right or topic."""


class RunError(NewsiftError):
    """Nothing beyond the failure was committed."""

    exit_code = 1


class BrokerError(RunError):
    """The broker cannot be reached or fails; the message has its address and the remedy."""


class ConflictError(RunError):
    """Another person published first; nothing was published."""


class FencedError(RunError):
    """Another worker has joined the group with this worker's instance id."""


class OutputError(RunError):
    """A result cannot be written."""


class StalledError(RunError):
    """No batch has finished, although there is lag and the broker answers."""
