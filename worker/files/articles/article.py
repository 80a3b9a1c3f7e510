"""An article as it was read from a text or a page."""

from dataclasses import dataclass

from encoder.errors import InputError
from worker.files.articles.doubts import too_few_words
from worker.visible import one_line

SHOWN = 80  # characters of what is taken for no article


@dataclass(frozen=True, slots=True)
class Article:
    """An article: title, text, its address where that is known, and the doubt that it is one."""

    title: str
    text: str
    url: str | None = None
    doubt: str | None = None  # what it looks like instead

    def undoubted(self, name: str, remedy: str = "") -> "Article":
        """This, unless it looks like something else; the refusal says what, and how it begins."""
        if self.doubt is not None:
            told = f"{name}: looks like {self.doubt} ({self._beginning!r})"
            raise InputError(f"{told}; save the text and add the file{remedy}")
        return self

    def require_seed(self, name: str, remedy: str = "") -> "Article":
        """This, unless it looks like something else or has too few words for a seed."""
        if not self.doubt and self.text.strip() and (few := too_few_words(self.text)):
            raise InputError(f"{name}: has {few} ({self._beginning!r}); write more{remedy}")
        return self.undoubted(name, remedy)

    @property
    def _beginning(self) -> str:
        begins = one_line(self.text)
        return begins if len(begins) <= SHOWN else begins[: SHOWN - 1] + "…"
