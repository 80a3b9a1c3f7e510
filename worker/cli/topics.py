"""`newsift topics`: make the four topics, or say where they are not as they should be."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from worker.cli.common import JSON, kafka_options
from worker.cli.table import print_json
from worker.config import Config
from worker.visible import one_line

if TYPE_CHECKING:
    from worker.topicrules import Difference

WRONG = 1  # the exit code when something is not as the worker needs it


@click.group()
def topics() -> None:
    """Make the four topics, or compare them with what the worker needs."""


@topics.command()
@JSON
@kafka_options
def create(as_json: bool, config: Config) -> None:
    """Make the topics that are missing; those that are there stay as they are."""
    from worker.topics import create_topics

    made = create_topics(config)
    if as_json:
        print_json({"topic": name} for name in made)
    for name in () if as_json else made:
        click.echo(name)
    if not made:
        click.echo("all four topics are there", err=True)


@topics.command()
@JSON
@kafka_options
def check(as_json: bool, config: Config) -> int:
    """Say what differs from what the worker needs, why it matters and what mends it.

    Exits with 1 if something must change, with 0 if there is only advice, or nothing.
    """
    from worker.topics import check_topics

    found = check_topics(config)
    if as_json:
        print_json(asdict(difference) for difference in found)
    for difference in () if as_json else found:
        _print(difference)
    if not found:
        click.echo("all four topics are as they should be", err=True)
    return WRONG if any(difference.serious for difference in found) else 0


def _print(found: "Difference") -> None:
    word = "must" if found.serious else "should"
    said = f"{found.topic}: {found.setting} is {found.found}, {word} be {found.wanted}"
    click.echo(one_line(said))
    click.echo(f"  why: {one_line(found.why)}")
    click.echo(f"  fix: {one_line(found.fix)}")
