"""`newsift dead-letters`: messages that the worker could not work on, and another attempt."""

from collections import Counter

import click

from worker.actions.dead_letters.read import DeadLetter, dead_letters_of
from worker.actions.dead_letters.retry import Choice, retry_letters, unknown
from worker.actions.told import tallied
from worker.cli.options import JSON, kafka_options, since_option
from worker.cli.terminal import say
from worker.cli.view.table import print_fields, print_json
from worker.config import Config
from worker.kafka.reading import connected
from worker.posts.read import Reason
from worker.visible import bytes_in_json, one_line

DETAIL = 60
SINCE = since_option("Only from this time on: 2h, or RFC 3339.")


REASON = click.option(
    "--reason",
    metavar="CODE",
    type=click.Choice([reason.value for reason in Reason]),
    help="Only those with this reason.",
)


@click.group("dead-letters")
def dead_letters() -> None:
    """List, show and retry the messages that the worker could not work on."""


@dead_letters.command("list")
@REASON
@SINCE
@JSON
@kafka_options
def list_letters(reason: str | None, start: int | None, as_json: bool, config: Config) -> None:
    """List dead letters with their ids and reasons."""
    reasons: Counter[str] = Counter()
    with connected(config) as cluster:
        for letter in dead_letters_of(cluster, config, start):
            if reason not in (None, letter.reason):
                continue
            reasons[letter.reason] += 1
            if as_json:
                print_json([letter.row()])
            else:
                _print_line(letter)
    if not as_json:
        told = f"{reasons.total():,}: {tallied(reasons)}" if reasons else "none"
        say(f"dead letters: {told}")


@dead_letters.command("show")
@click.argument("name", metavar="ID")
@JSON
@kafka_options
def show_letter(name: str, as_json: bool, config: Config) -> None:
    """Show one dead letter with its bytes."""
    with connected(config) as cluster:
        found = [letter for letter in dead_letters_of(cluster, config) if letter.id == name]
    if not found:
        raise unknown(name)
    row, key, value = found[-1].row(), found[-1].message.key, found[-1].message.value
    if as_json:
        print_json([row | {"key": bytes_in_json(key), "value": bytes_in_json(value)}])
    else:
        print_fields(row | {"key": _text(key)})
        click.echo(f"\n{_text(value)}")


@dead_letters.command()
@click.argument("names", nargs=-1, metavar="[ID]…")
@click.option("--all", "every", is_flag=True, help="All that can be retried.")
@REASON
@SINCE
@kafka_options
def retry(
    names: tuple[str, ...], every: bool, reason: str | None, start: int | None, config: Config
) -> None:
    """Send dead letters to the posts topic again, byte by byte; three attempts are the most.

    Each is listed once the broker has it. What was sent again before is not sent again: the posts
    since the oldest of these letters are read to know, and two retries on a host go in turn.
    """
    if bool(names) + every + (reason is not None) != 1:
        raise click.UsageError("name dead letters, or give --all, or --reason CODE")
    retry_letters(config, Choice(frozenset(names), reason, start), _print_sent)


def _print_sent(letter: DeadLetter) -> None:
    click.echo(f"{one_line(letter.id)}  attempt {letter.attempt + 1}")


def _print_line(letter: DeadLetter) -> None:
    when = f"{letter.row()['rejected_at'][:19]}Z"
    told = one_line(letter.detail)[:DETAIL]
    attempt, reason = f"attempt {letter.attempt}", one_line(letter.reason)
    click.echo(f"{one_line(letter.id):<24}  {when}  {reason:<16}  {attempt}  {told}".rstrip())


def _text(value: bytes | None) -> str:
    return "-" if value is None else one_line(value.decode("utf-8", "backslashreplace"))
