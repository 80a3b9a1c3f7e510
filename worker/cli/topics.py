"""`newsift topics`: make the topics, or say where they are not as they should be."""

from dataclasses import asdict

import click

from worker.cli.options import JSON, kafka_options
from worker.cli.view.table import print_json
from worker.config import Config
from worker.kafka.rules import Difference
from worker.kafka.topics import check_topics, create_topics
from worker.visible import one_line

WRONG = 1  # the exit code when something is not as the worker needs it


@click.group()
def topics() -> None:
    """Make the topics, or compare them with what newsift needs."""


@topics.command()
@JSON
@kafka_options
def create(as_json: bool, config: Config) -> int:
    """Make the topics that are missing; those that are there stay as they are.

    Exits with 1 if one of those is not as the worker needs it, and says so.
    """
    made = create_topics(config)
    if as_json:
        print_json({"topic": name} for name in made)
    for name in () if as_json else made:
        click.echo(name)
    differing = check_topics(config)
    if not made and not differing:
        click.echo("all topics are there", err=True)
    return _told(differing, err=True)


@topics.command()
@JSON
@kafka_options
def check(as_json: bool, config: Config) -> int:
    """Say what differs from what newsift needs, why it matters and what mends it.

    Exits with 1 if something must change, with 0 if there is only advice, or nothing.
    """
    found = check_topics(config)
    if not found:
        click.echo("all topics are as they should be", err=True)
    if as_json:
        print_json(asdict(difference) for difference in found)
    return _told(found, silent=as_json)


def _told(found: list[Difference], err: bool = False, silent: bool = False) -> int:
    """Tell what differs, and the exit code that it makes."""
    for each in () if silent else found:
        word = "must" if each.serious else "should"
        said = f"{each.topic}: {each.setting} is {each.found}, {word} be {each.wanted}"
        for line in (said, f"  why: {each.why}", f"  fix: {each.fix}"):
            click.echo(line[:2] + one_line(line[2:]), err=err)
    return WRONG if any(difference.serious for difference in found) else 0
