"""Everything the stream refuses or fails at, as branches of the encoder's tree.

NewsiftError                  the one thing a caller needs to catch (encoder.errors)
├── ConfigError               a key of the configuration is refused (exit 2)
├── AccessError               the broker or a platform refuses: login, topic, rights (exit 2)
└── RunError                  something failed while running (exit 1)
    ├── BrokerError           the broker cannot be reached, or fails
    ├── ConflictError         somebody else published first
    ├── FencedError           another worker has the same instance id
    ├── OutputError           what was found cannot be written
    └── StalledError          no progress while there is lag
"""

from encoder.errors import NewsiftError


class ConfigError(NewsiftError, ValueError):
    """A configuration that is refused, with the file, the key, the value and the remedy."""


class AccessError(NewsiftError):
    """The broker or a platform refuses: login, certificate, right or topic."""


class RunError(NewsiftError):
    """A failure while running; nothing past it was committed."""

    exit_code = 1


class BrokerError(RunError):
    """The broker cannot be reached or fails, with its address and the remedy in the message."""


class ConflictError(RunError):
    """Another person replaced the record after it was read; nothing was published."""


class FencedError(RunError):
    """Another worker has joined the group with this worker's instance id."""


class OutputError(RunError):
    """A result cannot be written; the message has the file and the reason."""


class StalledError(RunError):
    """No batch has finished although there is lag and the broker answers."""
