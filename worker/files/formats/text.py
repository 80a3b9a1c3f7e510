"""Plain text: each line a post."""

from collections.abc import Iterator

from worker.files.messages import FileMessage, Maker, plain_post
from worker.files.read import too_long
from worker.posts.outcome import NO_WORDS, Reason

Lines = Iterator[tuple[int, list[bytes]]]


def text_messages(batches: Lines, maker: Maker, blank: bool) -> Iterator[list[FileMessage]]:
    """The lines as plain posts; with `blank` those without a letter too, as passed over."""
    for first, rows in batches:
        numbered = enumerate(rows, first)
        kept = ((number, row) for number, row in numbered if blank or row.strip())
        if found := [_message(row, number, maker) for number, row in kept]:
            yield found


def _message(row: bytes, number: int, maker: Maker) -> FileMessage:
    if not row.strip():
        return maker.none(NO_WORDS, number, row)
    if refused := too_long(row):
        return maker.bad(number, row, refused, Reason.POST_BYTES)
    if b"\0" in row:
        return maker.bad(number, row, "holds a NUL byte")
    try:
        return maker.post(plain_post(row.decode()), number, row)
    except UnicodeDecodeError as error:
        told = f"is not UTF-8 at byte {error.start + 1}"
        return maker.bad(number, row, told, Reason.INVALID_UTF8)
