"""What a file holds before it is used: first rows, columns, and what will be left out."""

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from msgspec import Struct

from encoder.errors import InputError
from newsift.files.messages import FileMessage, NoTextColumnError
from newsift.files.posts import FileMessages
from newsift.files.tables import FileOptions
from worker.config.limits import Limits
from worker.posts.outcome import NO_WORDS, Post, Rejected
from worker.text import shorten

SHOWN_ROWS = 8
MAX_CELL_CHARS = 200
MAX_SHOWN_COLUMNS = 100
POST_FIELDS = ("id", "created_at", "author", "url", "text")


class FilePreview(Struct):
    """`header` and `columns` are of a table; of other files `rows` has the posts' own fields."""

    name: str = ""
    header: list[str] = []
    columns: dict[str, str | None] = {}  # text, id, time, author and link
    names_text: bool = True  # else the column of the texts is yet to be chosen
    rows: list[list[str]] = []
    first_time: tuple[str, str] | None = None  # a cell, and the time in UTC that it is read as
    read: int = 0  # rows
    is_whole: bool = True  # else the counts are of the first rows alone
    posts: int = 0
    without_text: int = 0
    bad: int = 0
    bad_example: str = ""
    other: int = 0  # rows that are no posts, such as deletions in an export
    warnings: list[str] = []


def preview(file: Path, options: FileOptions, limits: Limits, seconds: float) -> FilePreview:
    """Reads for so long, and at least the first rows. Raises InputError as a command would."""
    warnings: list[str] = []
    messages = FileMessages(file, options, limits, warnings.append)
    result = FilePreview(messages.name)
    try:
        _read(messages, result, time.monotonic() + seconds)
    except InputError as error:
        if not (messages.columns and isinstance(error.__cause__, NoTextColumnError)):
            raise
        shown = preview(file, replace(options, text=messages.columns[0]), limits, 0.0)
        return FilePreview(
            name=shown.name, header=shown.header, columns=shown.columns | {"text": None},
            names_text=False, rows=shown.rows,
        )  # fmt: skip
    if columns := messages.post_columns:
        result.header = list(messages.columns[:MAX_SHOWN_COLUMNS])
        result.columns = {
            "text": columns.text, "id": columns.id, "time": columns.time,
            "author": columns.author, "link": columns.url,
        }  # fmt: skip
        if warnings:
            del warnings[0]  # which columns are read
    prefix = f"{messages.name}: "
    result.warnings = [warning.removeprefix(prefix) for warning in warnings]
    return result


def _read(messages: FileMessages, result: FilePreview, ends_at: float) -> None:
    with closing(iter(messages)) as batches:
        for batch in batches:
            for message in batch:
                _count(message, result)
                if len(result.rows) < SHOWN_ROWS:
                    result.rows.append(_cells(message))
                if result.first_time is None and messages.post_columns:
                    result.first_time = _time(message, messages.post_columns.time)
            if time.monotonic() > ends_at and result.read >= SHOWN_ROWS:
                result.is_whole = next(batches, None) is None
                break


def _count(message: FileMessage, result: FilePreview) -> None:
    reading = message.reading
    result.read += 1
    if isinstance(reading, Post):
        result.posts += 1
    elif isinstance(reading, Rejected):
        result.bad += 1
        result.bad_example = result.bad_example or f"{message.place}: {reading.detail}"
    elif reading == NO_WORDS:
        result.without_text += 1
    else:
        result.other += 1


def _cells(message: FileMessage) -> list[str]:
    if message.columns is not None:
        cells = [str(cell or "") for cell in list(message.columns.values())[:MAX_SHOWN_COLUMNS]]
    elif isinstance(post := message.reading, Post):
        cells = [str(getattr(post, name) or "") for name in POST_FIELDS]
    else:
        cells = [message.raw[: 4 * MAX_CELL_CHARS].decode("utf-8", "replace")]
    return [shorten(cell, MAX_CELL_CHARS) for cell in cells]


def _time(message: FileMessage, column: str | None) -> tuple[str, str] | None:
    post, cells = message.reading, message.columns
    if column is None or cells is None or not isinstance(post, Post) or not post.created_at:
        return None
    return shorten(str(cells[column]), MAX_CELL_CHARS), post.created_at
