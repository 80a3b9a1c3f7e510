"""Everything newsift refuses, as one tree.

NewsiftError                  the one thing a caller needs to catch
├── InputError                what the caller passed in is refused
├── ModelError                a model directory is missing, damaged or of another kind
├── MismatchError             embeddings of two models were put together
└── DeviceError               the device asked for is not there
"""


class NewsiftError(Exception):
    """The root of every error that newsift raises on purpose; its message is one line."""

    exit_code = 2


class InputError(NewsiftError, ValueError):
    """An argument, a text, a file or a setting that newsift cannot work with."""


class ModelError(NewsiftError):
    """A model directory that is refused, with the file and the remedy in the message."""


class MismatchError(NewsiftError, ValueError):
    """Embeddings made by different models, which cannot be compared or joined."""


class DeviceError(NewsiftError):
    """A device that was asked for by name and is not available."""


def one_line(message: str, most: int = 500) -> str:
    """A message with what others wrote in it as one line that is no command to a terminal."""
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message[: most + 1])
    return shown if len(message) <= most else f"{shown[:most]}…"
