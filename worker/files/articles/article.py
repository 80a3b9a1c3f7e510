"""An article as it was read from a text or a page."""

from dataclasses import dataclass

from encoder.errors import InputError
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
        if self.doubt is None:
            return self
        begins = one_line(self.text)
        begins = begins if len(begins) <= SHOWN else begins[: SHOWN - 1] + "…"
        told = f"{name}: looks like {self.doubt} ({begins!r})"
        raise InputError(f"{told}; save the text and add the file{remedy}")
