"""Letters of files that do not say their encoding: UTF-8, or Windows-1252 as Excel has it."""

from collections.abc import Sequence

UTF8, WINDOWS = "UTF-8", "Windows-1252"


class Letters:
    """Decodes the lines of an input, in the one encoding that most of its first letters fit.

    It is decided on the first lines that are not ASCII; a line in another one is no text.
    """

    def __init__(self) -> None:
        self.encoding: str | None = None

    def look(self, lines: Sequence[bytes]) -> None:
        """Decide on these lines, if it is not decided yet and can be."""
        if self.encoding is None:
            odd = [line for line in lines if not line.isascii()]
            fit = sum(map(_is_utf8, odd))
            if odd:
                self.encoding = UTF8 if 2 * fit >= len(odd) else WINDOWS

    def text(self, line: bytes) -> str:
        """A line's letters; a ValueError says why it has none."""
        if b"\0" in line:
            raise ValueError("holds a NUL byte")
        if line.isascii():
            return line.decode("ascii")
        if self.encoding == WINDOWS:
            return self._windows(line)
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"is not UTF-8 at byte {error.start + 1}") from None

    def _windows(self, line: bytes) -> str:
        if _is_utf8(line):
            raise ValueError("is UTF-8 in a file of Windows-1252")
        try:
            return line.decode("cp1252")
        except UnicodeDecodeError as error:
            told = f"is neither UTF-8 nor {WINDOWS} at byte {error.start + 1}"
            raise ValueError(told) from None


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
