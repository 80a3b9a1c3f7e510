"""The filter on the languages that platforms name."""

from collections.abc import Sequence
from typing import NamedTuple, Self

# What platforms write where they name none: undetermined, several, and, of X, no words at all.
NO_LANGUAGE = ("und", "mul", "mis", "zxx", "art")
LOCAL_USE_RANGE = ("qaa", "qtz")  # X uses some of these codes, such as qme for links alone.
MAX_LANGUAGE_CHARS = 40


class Languages(NamedTuple):
    """Language codes in lower case; an empty tuple accepts all."""

    codes: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """A list separated by commas, such as `posts.langs`."""
        return cls(tuple(map(_normalise, (text or "").split(",")))) if text else cls()

    def accepts(self, language: str | None) -> bool:
        """A post that names no language is accepted."""
        if not self.codes or not language:
            return True
        tag = f"{_normalise(language[:MAX_LANGUAGE_CHARS])}-"
        return _names_no_language(tag) or any(tag.startswith(f"{code}-") for code in self.codes)

    def choose(self, languages: Sequence[str]) -> str | None:
        """The first accepted one, else the first."""
        first = languages[0] if languages else None
        return next(filter(self.accepts, languages), first) if self.codes else first


ALL_LANGUAGES = Languages()


def _normalise(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def _names_no_language(tag: str) -> bool:
    first, last = LOCAL_USE_RANGE
    name = tag.partition("-")[0]
    return not name or name in NO_LANGUAGE or (len(name) == len(first) and first <= name <= last)
