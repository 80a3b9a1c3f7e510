"""Plain posts: {"id", "text"} and optional keys."""

from collections.abc import Sequence

import msgspec

from worker.posts.checks import Draft, make_post
from worker.posts.outcome import Reading


class OnlyPlain(Draft, forbid_unknown_fields=True, gc=False):
    """A value without other keys is of no other form, and nests nothing."""


decode = msgspec.json.Decoder(Draft).decode
decode_lines = msgspec.json.Decoder(OnlyPlain).decode_lines
USUAL_STARTS = (b'{"id"', b'{"text"')  # of a plain post; most other forms start otherwise


def read(value: bytes) -> Reading:
    return make_post("plain", decode(value))


def read_plain_lines(values: Sequence[bytes | None], most: int) -> list[Reading] | None:
    """Read plain posts quickly, as the lines of one text.

    None if a value has other keys or a line break, or if all have more than `most` bytes.
    """
    if not values or not (values[0] or b"").startswith(USUAL_STARTS):
        return None  # an exception costs as much as the decoding
    try:
        lines = b"\n".join(values)  # type: ignore[arg-type]  # None raises
        if len(lines) > most or lines.count(b"\n") >= len(values):
            return None
        posts = decode_lines(lines)  # an object ends its line: as many as lines is one on each
        if len(posts) != len(values):
            return None
        return [make_post("plain", post) for post in posts]
    except (TypeError, ValueError, msgspec.MsgspecError):
        return None
