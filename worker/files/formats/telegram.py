"""Messages of a chat as Telegram Desktop exports them (result.json)."""

import re
from functools import lru_cache

import msgspec

from worker.files.messages import plain_post
from worker.posts.outcome import NO_POST, PassedOver

CONTROL = re.compile(rb"(\\\\)|\\x(?=[0-9A-F]{2})")  # it writes \x0B, which is no JSON


class TextPart(msgspec.Struct):
    """A stretch of a text that is bold, a link or the like."""

    text: str = ""


class ChatMessage(msgspec.Struct):
    """A message; `type` is "service" for what the chat says of itself."""

    id: int | str
    type: str
    text: str | list[str | TextPart] = ""
    text_entities: list[TextPart] | None = None
    sender: str | None = msgspec.field(default=None, name="from")
    from_id: str | int | None = None
    date: str | None = None
    date_unixtime: str | int | None = None


class Chat(msgspec.Struct):
    """The chat that messages are of."""

    id: int | str | None = None


MESSAGE = msgspec.json.Decoder(ChatMessage)
CHAT = msgspec.json.Decoder(Chat)


def message_of(message: bytes, around: bytes) -> bytes | PassedOver:
    """A plain post; ids of messages count anew in each chat, so the chat's stands before."""
    found = MESSAGE.decode(message)
    if found.type != "message":
        return NO_POST
    parts = [found.text] if isinstance(found.text, str) else found.text
    text = "".join(part if isinstance(part, str) else part.text for part in parts)
    chat = _chat(around)
    name = f"{found.id}" if chat is None else f"{chat}/{found.id}"
    author = found.sender or (None if found.from_id is None else str(found.from_id))
    time = found.date_unixtime  # older exports have the date alone, without an offset
    created_at = found.date if time is None else float(time)
    return plain_post(text, name, author=author, created_at=created_at)


def mended(message: bytes) -> bytes:
    """JSON of a message, its escapes of control characters written as JSON has them."""
    if rb"\x" not in message:
        return message
    return CONTROL.sub(lambda found: found[1] or rb"\u00", message)


@lru_cache(4)
def _chat(around: bytes) -> str | None:
    """The id of the chat, from what stood before its messages."""
    try:
        found = CHAT.decode(around.rstrip() + b"null}")
    except msgspec.DecodeError:
        return None
    return None if found.id is None else str(found.id)
