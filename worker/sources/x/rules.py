"""Rules of the filtered stream: a file of them, and what is to be added and removed to match it."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from encoder.errors import InputError
from encoder.support.files import read_regular

MOST = 1_000
LONGEST = 1_024  # characters
LARGEST = 2**23  # bytes of a file


class StreamRule(msgspec.Struct, frozen=True):
    """A rule with its tag, if it has one, and its id, once X gave it one."""

    value: str
    tag: str | None = None
    id: str | None = None

    @property
    def meaning(self) -> tuple[str, str]:
        """What makes it the same rule as another."""
        return self.value, self.tag or ""

    def line(self) -> str:
        """The rule as a line of a file."""
        return f"{self.value}\t{self.tag}" if self.tag else self.value


RULE = msgspec.json.Decoder(StreamRule)
RULES = msgspec.json.Decoder(list[StreamRule])


def rules_in(path: Path) -> list[StreamRule]:
    """The rules of a file: one a line, its tag behind a tab; or as JSON, as X writes them.

    Empty lines are passed over, and those that start with "# ": a hashtag has no space.
    """
    try:
        text = read_regular(path, LARGEST).decode("utf-8")
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or "not UTF-8, or too large"
        raise InputError(
            f"--rules: {path} cannot be read ({said}); give a file of rules"
        ) from error
    found = _array(path, text) if text.lstrip().startswith("[") else _lines(path, text)
    if not found:
        raise InputError(f"--rules: {path} holds no rule; write one a line")
    if len(found) > MOST:
        raise InputError(f"--rules: {path} holds {len(found):,} rules; X takes {MOST:,} at most")
    values = dict[str, str]()
    for where, rule in found:
        _check(where, rule)
        if (other := values.setdefault(rule.value, where)) != where:
            raise InputError(f"--rules: {where}: the same rule as {other}; leave one of them out")
    return [rule for _, rule in found]


def difference(
    there: Sequence[StreamRule], wanted: Sequence[StreamRule]
) -> tuple[list[StreamRule], list[StreamRule]]:
    """What is to be added, and what removed; a tag cannot be changed, so its rule is both."""
    has, wants = {rule.meaning for rule in there}, {rule.meaning for rule in wanted}
    return (
        [rule for rule in wanted if rule.meaning not in has],
        [rule for rule in there if rule.meaning not in wants],
    )


def _array(path: Path, text: str) -> list[tuple[str, StreamRule]]:
    try:
        found = RULES.decode(text)
    except msgspec.MsgspecError as error:
        raise InputError(f"--rules: {path} is no list of rules ({error})") from error
    return [(f"{path} rule {number}", rule) for number, rule in enumerate(found, 1)]


def _lines(path: Path, text: str) -> list[tuple[str, StreamRule]]:
    lines = ((f"{path} line {number}", line.strip(" \r")) for number, line in _numbered(text))
    return [(where, _of_line(where, line)) for where, line in lines if not _is_comment(line)]


def _numbered(text: str) -> list[tuple[int, str]]:
    return list(enumerate(text.removeprefix("\ufeff").split("\n"), 1))


def _is_comment(line: str) -> bool:
    return not line or line == "#" or line.startswith("# ")


def _of_line(where: str, line: str) -> StreamRule:
    if not line.startswith("{"):
        value, _, tag = line.partition("\t")
        return StreamRule(value.strip(), tag.strip() or None)
    try:
        return RULE.decode(line)
    except msgspec.MsgspecError as error:
        raise InputError(f"--rules: {where} is no rule ({error}); give value and tag") from error


def _check(where: str, rule: StreamRule) -> None:
    if not rule.value.strip():
        raise InputError(f"--rules: {where}: an empty rule; leave it out")
    if len(rule.value) > LONGEST:
        raise InputError(
            f"--rules: {where}: {len(rule.value):,} characters; X takes {LONGEST:,}: make it two"
        )
    if not all(text.isprintable() for text in rule.meaning):
        raise InputError(f"--rules: {where}: holds characters that cannot be seen; remove them")
