"""Every error that newsift raises on purpose, as one tree.

NewsiftError                  the one thing a caller needs to catch
├── InputError                an argument is refused
├── ModelError                a model directory is missing, damaged or of another kind
├── MismatchError             embeddings of two models were combined
└── DeviceError               the requested device is not available
"""


class NewsiftError(Exception):
    """The root of every error that newsift raises on purpose; its message is one line."""

    exit_code = 2


class InputError(NewsiftError, ValueError):
    """An argument, a text, a file or a setting that is not valid."""


class ModelError(NewsiftError):
    """A refused model directory; the message has the file and the remedy."""


class MismatchError(NewsiftError, ValueError):
    """Embeddings of different models, which cannot be compared or joined."""


class DeviceError(NewsiftError):
    """A device that was asked for by name and is not available."""


def one_line(message: str, most: int = 500) -> str:
    """A message in one line, without control characters of embedded foreign text."""
    plain = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message[: most + 1])
    return plain if len(message) <= most else f"{plain[:most]}…"
