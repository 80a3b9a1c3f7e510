"""`newsift seeds`: the articles that posts are compared with, on the control topic."""

from typing import Any

import click

from encoder.errors import InputError
from worker.actions.events.event import values_of, with_its_seeds
from worker.actions.seeds.change import changed, removed
from worker.actions.seeds.rows import fields, rows_of, whole_row
from worker.actions.seeds.topic import known, seed_topic
from worker.actions.times import until
from worker.cli.options import JSON, kafka_options
from worker.cli.seeds.add import add
from worker.cli.seeds.follow import follow
from worker.cli.seeds.show import print_seed, print_table, print_told
from worker.cli.seeds.transfer import export, import_seeds
from worker.cli.view.table import print_json
from worker.config import Config
from worker.posts.times import rfc3339
from worker.visible import one_line

AUTO = "auto"
NEVER = "never"


@click.group()
def seeds() -> None:
    """List, add, change and remove the articles that posts are compared with.

    A change takes effect in every running worker within a second.
    """


seeds.add_command(add)
seeds.add_command(export)
seeds.add_command(follow)
seeds.add_command(import_seeds)


@seeds.command("list")
@JSON
@kafka_options
def list_seeds(as_json: bool, config: Config) -> None:
    """List the seeds with their thresholds, and those that are refused with the reason."""
    from worker.actions.seeds.thresholds import with_thresholds

    with seed_topic(config) as topic:
        latest = topic.latest()
    rows = with_thresholds(rows_of(latest, config), values_of(latest), config)
    if as_json:
        print_json(rows)
    else:
        print_table(rows, config.matching.threshold)


@seeds.command("show")
@click.argument("name", metavar="ID")
@JSON
@kafka_options
def show_seed(name: str, as_json: bool, config: Config) -> None:
    """Show one seed whole."""
    from worker.actions.seeds.thresholds import with_thresholds

    with seed_topic(config) as topic:
        latest = topic.latest()
    key = known(latest, name)
    needed = with_its_seeds(key, values_of(latest), config.limits)
    (row,) = with_thresholds([whole_row(latest, key, config)], needed, config)
    if as_json:
        print_json([row])
    else:
        print_seed(row, config.matching.threshold)


@seeds.command()
@click.argument("names", nargs=-1, required=True, metavar="ID…")
@kafka_options
def remove(names: tuple[str, ...], config: Config) -> None:
    """Delete seeds; all of them, or none if one is unknown."""
    with seed_topic(config) as topic:
        removed(topic, names)
    for name in names:
        click.echo(f"{one_line(name)}  removed")


@seeds.command("set")
@click.argument("name", metavar="ID")
@click.option("--threshold", metavar="SCORE", help="The score that matches, or 'auto'.")
@click.option("--event", help="The event it is about.")
@click.option("--title", help="The title; this changes the seed's version.")
@click.option("--url", help="The article's address, for the record.")
@click.option("--expires-at", metavar="TIME", help="When it ends: 7d, RFC 3339, or 'never'.")
@click.option("--paused/--resumed", default=None, help="Match nothing for now, or go on.")
@JSON
@kafka_options
def change(
    name: str, threshold: str | None, event: str | None, title: str | None, url: str | None,
    expires_at: str | None, paused: bool | None, as_json: bool, config: Config,
) -> None:  # fmt: skip
    """Publish a seed's latest record again with changes; what is not named stays as it is."""
    given = {"event": event, "title": title, "url": url}
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if threshold is not None:
        changes["threshold"] = _score(threshold)
    if expires_at is not None:
        changes["expires_at"] = None if expires_at == NEVER else rfc3339(until(expires_at))
    if paused is not None:
        changes["paused"] = paused or None
    if not changes:
        raise click.UsageError("nothing to change; see newsift seeds set --help")
    with seed_topic(config) as topic:
        seed = changed(topic, name, changes, config)
    if as_json:
        print_json([fields(seed) | {"published": "changed"}])
    else:
        print_told(seed, "changed", config)


def _score(text: str) -> float | None:
    if text == AUTO:
        return None
    try:
        return float(text)
    except ValueError:
        said = f"--threshold {text!r}: give a score above 0, at most 1, or auto"
        raise InputError(said) from None
