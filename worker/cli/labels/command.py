"""`newsift labels`: what people say of posts, on the topic of labels."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from worker.actions.labels.topic import label_topic, writable
from worker.actions.who import myself
from worker.cli.labels.ask import ask
from worker.cli.options import JSON, kafka_options
from worker.cli.terminal import at_terminal, consented, say
from worker.cli.view.table import print_json, table
from worker.config import Config
from worker.files.labels import ENDINGS, GivenBy, label_writer, read_labels
from worker.files.out.formats import check_ending
from worker.files.read import DASH
from worker.files.write import check_targets
from worker.judge.agreement import agreements, labels_by_person
from worker.judge.labels import Label
from worker.stream.flow import now

EVENT = click.option("--event", metavar="NAME", help="Only this event's.")


@click.group()
def labels() -> None:
    """Ask people whether posts are on an event; list, read and write what they said."""


labels.add_command(ask)


@labels.command("list")
@EVENT
@JSON
@kafka_options
def list_labels(event: str | None, as_json: bool, config: Config) -> None:
    """Count the labels of each event and person, and say how far two people agree (Cohen's κ).

    κ is 1 where they always agree, and 0 where they agree as often as chance would.
    """
    found = _by_event(config, event)
    counts = [{"event": name} | row for name, own in found.items()
              for row in labels_by_person(own)]  # fmt: skip
    pairs = [{"event": name} | asdict(pair) for name, own in found.items()
             for pair in agreements(own)]  # fmt: skip
    if as_json:
        print_json([*counts, *pairs])
        return
    if not counts:
        say("no label yet; `newsift labels ask EVENT` asks for some")
        return
    _print(counts)
    if pairs:
        click.echo()
        _print([pair | {"same": f"{pair['same']:.2f}", "kappa": _two(pair["kappa"])}
                for pair in pairs])  # fmt: skip


@labels.command("export")
@click.argument("file", default=DASH, metavar="[FILE]", type=click.Path(path_type=Path))
@EVENT
@kafka_options
def export_labels(file: Path, event: str | None, config: Config) -> None:
    """Write all labels to FILE: .csv, .tsv, .json, else JSON lines; - is standard output."""
    check_targets({"FILE": file}, [])
    check_ending("FILE", file, ENDINGS)
    found = _by_event(config, event)
    with label_writer(file) as add:
        for label in (label for own in found.values() for label in own):
            add(label)
    say(f"{sum(map(len, found.values())):,} labels exported")


@labels.command("import")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--by", metavar="NAME", help="Who labelled what names nobody; else you.")
@click.option("--yes", is_flag=True, help="Publish without asking.")
@kafka_options
def import_labels(file: Path, by: str | None, yes: bool, config: Config) -> None:
    """Publish the labels of FILE, CSV or JSON lines, and read them back.

    Nothing is published before every line is understood. They count as given: they may train, and
    never certify, as only a random draw does.
    """
    found = read_labels(file, GivenBy(by or myself(), now()), config.limits)
    told = _told(found.values())
    if not consented(yes or file == DASH or not at_terminal(), f"Publish {told}?"):
        return
    with writable(config) as topic:
        topic.publish({key: label.value for key, label in found.items()})
    say(f"{told} imported")


def _by_event(config: Config, event: str | None) -> dict[str, tuple[Label, ...]]:
    """The labels by event, or those of one event."""
    with label_topic(config) as topic:
        found = topic.book().by_event()
    return found if event is None else {name: found[name] for name in found if name == event}


def _told(found: Iterable[Label]) -> str:
    events = Counter(label.event for label in found)
    of = f"{len(events):,} events" if len(events) > 1 else f"event {next(iter(events))!r}"
    return f"{events.total():,} labels of {of}"


def _print(rows: list[dict[str, Any]]) -> None:
    table(tuple(rows[0]), [tuple(row.values()) for row in rows])


def _two(kappa: float | None) -> str | None:
    return None if kappa is None else f"{kappa:.2f}"
