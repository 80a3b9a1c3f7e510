"""`newsift topics`: create the topics, or check their settings."""

from dataclasses import asdict

import click

from newsift.cli.group import CommandGroup
from newsift.cli.options import JSON, kafka_options
from newsift.cli.output import print_json
from worker.config import Config
from worker.kafka.rules import Difference
from worker.kafka.topics import check_topics, create_topics
from worker.text import one_line

MUST_CHANGE_CODE = 1  # the exit code if a topic must be changed


@click.group(cls=CommandGroup)
def topics() -> None:
    """Create the topics, or compare their settings with what newsift needs."""


@topics.command()
@JSON
@kafka_options
def create(as_json: bool, config: Config) -> int:
    """Create the missing topics. Existing topics are not changed.

    Exits with 1 if an existing topic does not fit, and says why.
    """
    names = create_topics(config)
    if as_json:
        print_json({"topic": name} for name in names)
    for name in () if as_json else names:
        click.echo(name)
    differing = check_topics(config)
    if not names and not differing:
        click.echo("all topics are there", err=True)
    return _print_differences(differing, err=True)


@topics.command()
@JSON
@kafka_options
def check(as_json: bool, config: Config) -> int:
    """Show which settings differ, why that matters, and the command that corrects it.

    Exits with 1 if a setting must be changed, and with 0 if there is only advice or nothing.
    """
    differences = check_topics(config)
    if not differences:
        click.echo("all topics are as they should be", err=True)
    if as_json:
        # The keys are part of the interface, whatever the fields are called.
        keys = {"actual": "found", "required": "wanted"}
        rows = [asdict(difference) for difference in differences]
        print_json({keys.get(name, name): row[name] for name in row} for row in rows)
    return _print_differences(differences, silent=as_json)


def _print_differences(
    differences: list[Difference], err: bool = False, silent: bool = False
) -> int:
    """Returns the exit code."""
    for item in () if silent else differences:
        word = "must" if item.serious else "should"
        fault = f"{item.topic}: {item.setting} is {item.actual}, {word} be {item.required}"
        for line in (fault, f"  why: {item.why}", f"  fix: {item.fix}"):
            click.echo(line[:2] + one_line(line[2:]), err=err)
    return MUST_CHANGE_CODE if any(difference.serious for difference in differences) else 0
