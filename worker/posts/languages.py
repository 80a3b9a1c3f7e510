"""The filter on the languages that platforms name."""

from collections.abc import Sequence
from typing import NamedTuple, Self

# What platforms write where they name none: undetermined, several, and, of X, no words at all.
NAMELESS = ("und", "mul", "mis", "zxx", "art")
LOCAL_USE = ("qaa", "qtz")  # from, to: X has qme for links alone, qht for hashtags, and more
MAX_LANGUAGE_CHARS = 40  # characters of a language's name


class Languages(NamedTuple):
    """The accepted languages, in lower case; empty accepts all."""

    wanted: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str | None) -> Self:
        """Languages of a list separated by commas, such as `posts.langs`."""
        return cls(tuple(map(_plain, (text or "").split(",")))) if text else cls()

    def keep(self, named: str | None) -> bool:
        """Whether a post in this language, or in none, is accepted."""
        if not self.wanted or not named:
            return True
        tag = f"{_plain(named[:MAX_LANGUAGE_CHARS])}-"
        return _is_nameless(tag) or any(tag.startswith(f"{each}-") for each in self.wanted)

    def first(self, named: Sequence[str]) -> str | None:
        """The first accepted one of several languages, else the first."""
        if not named:
            return None
        return next((each for each in named if self.wanted and self.keep(each)), named[0])


ALL = Languages()


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def _is_nameless(tag: str) -> bool:
    first, last = LOCAL_USE
    name = tag.partition("-")[0]
    return not name or name in NAMELESS or (len(name) == len(first) and first <= name <= last)
