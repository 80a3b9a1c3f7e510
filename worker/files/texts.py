"""Texts to be embedded, out of the rows of a file: posts, or articles with their titles."""

from dataclasses import dataclass

import msgspec

from worker.files.messages import FileMessage
from worker.posts.outcome import NO_WORDS, Post, Rejected


@dataclass(frozen=True, slots=True)
class GivenText:
    """One text of the input, with the id and the title that came with it."""

    text: str
    title: str = ""
    id: str | None = None


class Titled(msgspec.Struct):
    """What an object may say besides its text."""

    title: str | None = None


TITLED = msgspec.json.Decoder(Titled)


def given_text(message: FileMessage) -> GivenText | None:
    """The text in a row, an empty one too; None for no post; a ValueError says why it is bad."""
    found = message.found
    if isinstance(found, Rejected):
        raise ValueError(f"{message.place}: {found.detail}")
    if isinstance(found, Post):
        return GivenText(found.text, _title(message), found.id)
    return GivenText("") if found == NO_WORDS else None


def _title(message: FileMessage) -> str:
    if message.columns is not None:
        return message.columns.get("title", "")
    try:
        return TITLED.decode(message.value).title or ""
    except msgspec.MsgspecError:
        raise ValueError(f"{message.place} has a 'title' that is no text") from None
