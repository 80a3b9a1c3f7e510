"""`newsift dead-letters`: messages that the worker could not work on, and another attempt."""

import base64
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

import click

from encoder.errors import InputError
from worker.cli.common import JSON, kafka_options, say
from worker.cli.letters import Letter, letters, sent_again
from worker.cli.view.table import counted, print_json, shown
from worker.cli.view.times import since as moment
from worker.config import Config
from worker.kafka.reading import connected
from worker.kafka.sending import sending
from worker.posts.times import rfc3339
from worker.visible import one_line

DETAIL = 60


def known_reason(_ctx: click.Context, _param: click.Parameter, given: str | None) -> str | None:
    """The reason that was given, which has to be one of the list."""
    if given is None:
        return None
    from worker.posts.read import Reason

    reasons = [reason.value for reason in Reason]
    if given not in reasons:
        raise InputError(f"--reason {given!r}: is no reason; give one of {', '.join(reasons)}")
    return given


SINCE = click.option("--since", metavar="TIME", help="Only from this time on: 2h, or RFC 3339.")
REASON = click.option(
    "--reason", metavar="CODE", callback=known_reason, help="Only those with this reason."
)


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

    What was sent again before is not sent again: the posts since the oldest of these letters are
    read to know.
    """
    if bool(names) + every + (reason is not None) != 1:
        raise click.UsageError("name dead letters, or give --all, or --reason CODE")
    start = None if since is None else moment(since)
    wanted = set(names)

    def chosen(letter: Letter) -> bool:
        return letter.id in wanted if wanted else reason in (None, letter.reason)

    with connected(config) as cluster:
        cluster.partitions(config.topics.posts)
        done = sent_again(cluster, config, filter(chosen, letters(cluster, config, start)))
        _check(wanted, done, letters(cluster, config, start))
        kept = _resend(config, filter(chosen, letters(cluster, config, start)), done)
    if kept:
        say(f"not retried: {counted(kept)}")


def print_line(letter: Letter) -> None:
    """One dead letter in one line."""
    when = f"{rfc3339(letter.rejected_at)[:19]}Z"
    told = one_line(letter.detail)[:DETAIL]
    attempt, reason = f"attempt {letter.attempt}", one_line(letter.reason)
    click.echo(f"{one_line(letter.id):<24}  {when}  {reason:<16}  {attempt}  {told}".rstrip())


def _check(wanted: set[str], done: set[str], there: Iterable[Letter]) -> None:
    """Refuse, before anything is sent, ids that are unknown or that cannot be retried."""
    if not wanted:
        return
    found = {letter.id: _obstacle(letter, done) for letter in there}
    for name in sorted(wanted):
        if name not in found:
            raise InputError(f"dead letter {name!r}: there is none; see newsift dead-letters list")
        if obstacle := found[name]:
            raise InputError(f"dead letter {name!r}: cannot be retried: {obstacle}")


def _resend(config: Config, chosen: Iterable[Letter], done: set[str]) -> Counter[str]:
    """Send the chosen ones again, and count why others were not."""
    kept: Counter[str] = Counter()
    with sending(config) as outbox:
        for letter in chosen:
            if obstacle := _obstacle(letter, done):
                kept[obstacle] += 1
                continue
            outbox.send(config.topics.posts, letter.value, letter.key, letter.again)
            click.echo(f"{one_line(letter.id)}  attempt {letter.attempt + 1}")
        outbox.settle()
    return kept


def _obstacle(letter: Letter, done: set[str]) -> str | None:
    return letter.obstacle or ("it was sent again before" if letter.id in done else None)


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
