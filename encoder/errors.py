"""The exceptions of newsift.

NewsiftError                  the base class
├── InputError                an argument is refused
├── ModelError                a model directory is missing, damaged or of another kind
├── MismatchError             embeddings of two models were combined
└── DeviceError               the requested device is not available
"""


class NewsiftError(Exception):
    """The base class of newsift's errors; the message is one line."""

    exit_code = 2


class InputError(NewsiftError, ValueError):
    """An argument, a text, a file or a setting that is not valid."""


class ModelError(NewsiftError):
    """An invalid model directory; the message names the file and the remedy."""


class MismatchError(NewsiftError, ValueError):
    """Embeddings of different models, which cannot be compared or joined."""


class DeviceError(NewsiftError):
    """A requested device that is not available."""


def one_line(message: str, most: int = 500) -> str:
    """Put a message on one line, without control characters."""
    plain = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message[: most + 1])
    return plain if len(message) <= most else f"{plain[:most]}…"
