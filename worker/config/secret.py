"""A password that cannot be printed, logged, pickled or serialised by accident."""

from pathlib import Path
from typing import NoReturn, Self

from encoder.support.files import read_regular
from worker.errors import ConfigError

HIDDEN_TEXT = "***"
MAX_SECRET_BYTES = 4096


class Secret:
    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The secret itself; call it only to log in."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret({HIDDEN_TEXT})"

    def __str__(self) -> str:
        return HIDDEN_TEXT

    def __format__(self, spec: str) -> str:
        return format(HIDDEN_TEXT, spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")


def read_secret(path: Path, where: str) -> Secret:
    """`where` names the key in errors."""
    try:
        text = read_regular(path, MAX_SECRET_BYTES).decode("utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        fault = f"cannot be read ({getattr(error, 'strerror', None) or 'not UTF-8'})"
    else:
        if text and text.isprintable():
            return Secret(text)
        fault = "holds more than a secret" if text else "is empty"
    raise ConfigError(f"{where}: {str(path)!r} {fault}; give a file with the secret alone")
