"""Everything the stream refuses or fails at, as branches of the encoder's tree.

NewsiftError                  the one thing a caller needs to catch (encoder.errors)
├── ConfigError               a key of the configuration is refused (exit 2)
├── AccessError               the broker or a platform refuses: login, topic, rights (exit 2)
└── RunError                  something failed while running (exit 1)
    ├── BrokerError           the broker cannot be reached, or fails
    ├── OutputError           what was found cannot be written
    └── StalledError          no progress while there is lag
"""

from encoder.errors import NewsiftError


class ConfigError(NewsiftError, ValueError):
    """A configuration that is refused, with the file, the key, the value and the remedy."""


class AccessError(NewsiftError):
    """Who is asked is there and refuses: a login, a certificate, a right or a topic is missing."""


class RunError(NewsiftError):
    """A failure while running; nothing past it was committed."""

    exit_code = 1


class BrokerError(RunError):
    """The broker cannot be reached or fails, with its address and the remedy in the message."""


class OutputError(RunError):
    """What was found cannot be written, with the file and the reason in the message."""


class StalledError(RunError):
    """No batch has finished although posts are waiting and the broker answers."""
