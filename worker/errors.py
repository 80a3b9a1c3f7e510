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
