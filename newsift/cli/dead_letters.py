"""`newsift dead-letters`: list, show and retry messages that the worker could not process."""

from collections import Counter

import click

from newsift.cli.group import CommandGroup
from newsift.cli.options import JSON, kafka_options, since_option
from newsift.cli.output import print_fields, print_json
from newsift.operations.dead_letters import LetterSelection, no_such_letter, retry_letters
from newsift.operations.messages import format_counts, notify
from worker.config import Config
from worker.kafka.reading import connected
from worker.posts.read import Reason
from worker.text import bytes_to_json, one_line

MAX_DETAIL_CHARS = 60
SINCE = since_option("Only from this time on: 2h, or RFC 3339.")


REASON = click.option(
    "--reason",
    metavar="CODE",
    type=click.Choice([reason.value for reason in Reason]),
    help="Only those with this reason.",
)


@click.group("dead-letters", cls=CommandGroup)
def dead_letters() -> None:
    """List, show and retry the messages that the worker could not process."""


@dead_letters.command("list")
@REASON
@SINCE
@JSON
@kafka_options
def list_letters(reason: str | None, start: int | None, as_json: bool, config: Config) -> None:
    """List dead letters with their ids and reasons."""
    reasons: Counter[str] = Counter()
    with connected(config) as cluster:
        for letter in LetterSelection(reason=reason, start=start).read(cluster, config):
            reasons[letter.reason] += 1
            if as_json:
                print_json([letter.row()])
                continue
            when = letter.row()["kafka_time"][:19]
            detail = one_line(letter.detail)[:MAX_DETAIL_CHARS]
            place = f"{one_line(letter.id):<24}  {when}Z  {one_line(letter.reason):<16}"
            click.echo(f"{place}  attempt {letter.attempt}  {detail}".rstrip())
    if not as_json:
        summary = f"{reasons.total():,}: {format_counts(reasons)}" if reasons else "none"
        notify(f"dead letters: {summary}")


@dead_letters.command("show")
@click.argument("name", metavar="ID")
@JSON
@kafka_options
def show_letter(name: str, as_json: bool, config: Config) -> None:
    """Show one dead letter with its bytes."""
    with connected(config) as cluster:
        letters = list(LetterSelection(frozenset([name])).read(cluster, config))
    if not letters:
        raise no_such_letter(name)
    row, key, value = letters[-1].row(), letters[-1].message.key, letters[-1].message.value
    if as_json:
        print_json([row | {"key": bytes_to_json(key), "value": bytes_to_json(value)}])
    else:
        print_fields(row | {"key": _text(key)})
        click.echo(f"\n{_text(value)}")


@dead_letters.command()
@click.argument("names", nargs=-1, metavar="[ID]…")
@click.option("--all", "all_letters", is_flag=True, help="All that can be retried.")
@REASON
@SINCE
@kafka_options
def retry(
    names: tuple[str, ...], all_letters: bool, reason: str | None, start: int | None, config: Config
) -> None:
    """Publish dead letters to the posts topic again, unchanged, at most three times each.

    Each letter is listed when the broker has acknowledged it. A letter that was retried before is
    not published twice: the posts since the oldest of these letters are read to check. Two retries
    on one machine run one after the other.
    """
    if bool(names) + all_letters + (reason is not None) != 1:
        raise click.UsageError("name dead letters, or give --all, or --reason CODE")
    selection = LetterSelection(frozenset(names), reason, start)
    retry_letters(
        config,
        selection,
        lambda letter: click.echo(f"{one_line(letter.id)}  attempt {letter.attempt + 1}"),
    )


def _text(value: bytes | None) -> str:
    return "-" if value is None else one_line(value.decode("utf-8", "backslashreplace"))
