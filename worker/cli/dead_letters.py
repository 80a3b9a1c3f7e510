"""`newsift dead-letters`: messages that the worker could not work on, and another attempt."""

import base64
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import click

from encoder.errors import InputError
from worker.cli.common import JSON, kafka_options, say
from worker.cli.table import counted, print_json, shown
from worker.cli.times import rfc_3339
from worker.cli.times import since as moment
from worker.clients import Cluster, Message, connected, sending
from worker.config import Config
from worker.visible import one_line

MOST_ATTEMPTS = 3
DETAIL = 60

SINCE = click.option("--since", metavar="TIME", help="Only from this time on: 2h, or RFC 3339.")
REASON = click.option("--reason", metavar="CODE", help="Only those with this reason.")


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter: what could not be worked on, where it stood, and why."""

    id: str
    reason: str
    detail: str
    attempt: int
    rejected_at: int  # milliseconds
    key: bytes | None
    value: bytes | None

    @property
    def obstacle(self) -> str | None:
        """Why another attempt cannot be made, if so."""
        if self.value is None:
            return "it has no bytes: they were null, or too many to be kept"
        if self.attempt >= MOST_ATTEMPTS:
            return f"it has had {MOST_ATTEMPTS} attempts"
        return None

    def row(self) -> dict[str, Any]:
        """What the list says of it."""
        return {
            "id": self.id,
            "reason": self.reason,
            "detail": self.detail,
            "attempt": self.attempt,
            "rejected_at": rfc_3339(self.rejected_at),
            "bytes": None if self.value is None else len(self.value),
        }


def to_letter(message: Message) -> Letter:
    """The dead letter in a message; without the worker's headers it is named after its place."""
    told = {name: (value or b"").decode("utf-8", "replace") for name, value in message.headers}
    place = f"{message.topic}-{message.partition}-{message.offset}"
    attempt = told.get("attempt", "")
    return Letter(
        told.get("source") or place, told.get("reason", ""), told.get("detail", ""),
        int(attempt) if attempt.isdecimal() and len(attempt) < 4 else 1,
        max(message.timestamp, 0), message.key, message.value,
    )  # fmt: skip


@click.group("dead-letters")
def dead_letters() -> None:
    """List, show and retry the messages that the worker could not work on."""


@dead_letters.command("list")
@REASON
@SINCE
@JSON
@kafka_options
def list_letters(reason: str | None, since: str | None, as_json: bool, config: Config) -> None:
    """List dead letters with their ids and reasons."""
    start = None if since is None else moment(since)
    reasons: Counter[str] = Counter()
    with connected(config) as cluster:
        for letter in letters(cluster, config, start):
            if reason not in (None, letter.reason):
                continue
            reasons[letter.reason] += 1
            if as_json:
                print_json([letter.row()])
            else:
                print_line(letter)
    if not as_json:
        told = f"{reasons.total():,}: {counted(reasons)}" if reasons else "none"
        say(f"dead letters: {told}")


@dead_letters.command()
@click.argument("name", metavar="ID")
@JSON
@click.option("--raw", is_flag=True, help="Print the input's bytes alone, as they are.")
@kafka_options
def show(name: str, as_json: bool, raw: bool, config: Config) -> None:
    """Show one dead letter with its bytes."""
    with connected(config) as cluster:
        found = [letter for letter in letters(cluster, config) if letter.id == name]
    if not found:
        raise InputError(f"dead letter {name!r}: there is none; see newsift dead-letters list")
    letter = found[-1]
    if raw:
        _write_raw(letter.value or b"")
    elif as_json:
        print_json([letter.row() | {"key": _json(letter.key), "value": _json(letter.value)}])
    else:
        for key, value in letter.row().items():
            click.echo(f"{key:<12} {shown(value)}")
        click.echo(f"{'key':<12} {_text(letter.key)}\n\n{_text(letter.value)}")


@dead_letters.command()
@click.argument("names", nargs=-1, metavar="[ID]…")
@click.option("--all", "every", is_flag=True, help="All that can be retried.")
@REASON
@SINCE
@kafka_options
def retry(
    names: tuple[str, ...], every: bool, reason: str | None, since: str | None, config: Config
) -> None:
    """Send dead letters to the posts topic again, byte by byte; three attempts are the most.

    Each call sends what it is asked for: what was retried before is sent again.
    """
    if bool(names) + every + (reason is not None) != 1:
        raise click.UsageError("name dead letters, or give --all, or --reason CODE")
    start = None if since is None else moment(since)
    wanted = set(names)
    with connected(config) as cluster:
        cluster.partitions(config.topics.posts)
        _check(wanted, cluster, config, start)

        def chosen(letter: Letter) -> bool:
            return letter.id in wanted if wanted else reason in (None, letter.reason)

        kept = _resend(cluster, config, start, chosen)
    if kept:
        say(f"not retried: {counted(kept)}")


def letters(cluster: Cluster, config: Config, start: int | None = None) -> Iterator[Letter]:
    """The dead letters that are there now, each once, from a time on."""
    topic = config.topics.rejected
    seen: set[tuple[str, int]] = set()
    for batch in cluster.read(topic, None if start is None else cluster.at(topic, start)):
        for letter in map(to_letter, batch):
            # Delivered twice, a message is one dead letter; another attempt has another source.
            if (name := (letter.id, letter.attempt)) not in seen:
                seen.add(name)
                yield letter


def print_line(letter: Letter) -> None:
    """One dead letter in one line."""
    when = f"{rfc_3339(letter.rejected_at)[:19]}Z"
    told = one_line(letter.detail)[:DETAIL]
    attempt, reason = f"attempt {letter.attempt}", one_line(letter.reason)
    click.echo(f"{one_line(letter.id):<24}  {when}  {reason:<16}  {attempt}  {told}".rstrip())


def _check(wanted: set[str], cluster: Cluster, config: Config, start: int | None) -> None:
    """Refuse, before anything is sent, ids that are unknown or that cannot be retried."""
    if not wanted:
        return
    found = {letter.id: letter for letter in letters(cluster, config, start)}
    for name in sorted(wanted):
        if name not in found:
            raise InputError(f"dead letter {name!r}: there is none; see newsift dead-letters list")
        if obstacle := found[name].obstacle:
            raise InputError(f"dead letter {name!r}: cannot be retried: {obstacle}")


def _resend(
    cluster: Cluster, config: Config, start: int | None, chosen: Callable[[Letter], bool]
) -> Counter[str]:
    """Send the chosen ones again, and count why others were not."""
    kept: Counter[str] = Counter()
    with sending(config) as outbox:
        for letter in filter(chosen, letters(cluster, config, start)):
            if letter.obstacle:
                kept[letter.obstacle] += 1
                continue
            headers = [("attempt", str(letter.attempt + 1).encode())]
            outbox.send(config.topics.posts, letter.value, letter.key, headers)
            click.echo(f"{one_line(letter.id)}  attempt {letter.attempt + 1}")
        outbox.settle()
    return kept


def _write_raw(value: bytes) -> None:
    if sys.stdout.isatty():
        raise InputError("--raw: these bytes could steer a terminal; send them to a file or a pipe")
    click.get_binary_stream("stdout").write(value)


def _json(value: bytes | None) -> Any:
    """Bytes as JSON: text where they are, else base64."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _text(value: bytes | None) -> str:
    return "-" if value is None else one_line(value.decode("utf-8", "backslashreplace"))
