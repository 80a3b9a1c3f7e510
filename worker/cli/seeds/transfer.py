"""`newsift seeds export` and `import`: all records of the control topic, as they are, in a file."""

import json
from pathlib import Path

import click

from encoder.errors import InputError
from worker.actions.events.event import values_of
from worker.actions.seeds.topic import SeedTopic, seed_topic
from worker.cli.options import kafka_options
from worker.cli.seeds.from_url import at_terminal
from worker.cli.seeds.offer import known_events
from worker.cli.terminal import say
from worker.cli.view.table import bytes_in_json, bytes_of_json
from worker.config import Config
from worker.files.read import DASH, each_line
from worker.files.write import check_targets, writing
from worker.posts.times import rfc3339
from worker.seeds.profile import read_record
from worker.seeds.record import RefusedSeed, Seed
from worker.visible import escaped_json

NAMED = 10  # refused seeds that are told by their ids
WANTED = '{"key": …, "value": …}, as newsift seeds export writes it'


@click.command()
@click.argument("file", default=DASH, metavar="[FILE]", type=click.Path(path_type=Path))
@kafka_options
def export(file: Path, config: Config) -> None:
    """Write the latest record of every seed to FILE, or to standard output, as JSON lines.

    Refused seeds are among them. Keys and values are kept to the byte: text as it is, else base64.
    """
    check_targets({"FILE": file}, [])
    with seed_topic(config) as topic:
        latest = topic.latest()
    kept = [record for record in latest.values() if record.value is not None]
    with writing(file) as out:
        for record in sorted(kept, key=lambda record: record.key or b""):
            row = {"key": bytes_in_json(record.key), "value": bytes_in_json(record.value)}
            row["published_at"] = rfc3339(max(record.timestamp, 0))
            line = escaped_json(json.dumps(row, ensure_ascii=False))
            out.write(line.encode() + b"\n")
    say(f"{len(kept):,} seeds exported")


@click.command("import")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--preview/--no-preview",
    default=None,
    help="Say what the events would have matched; as a rule at a terminal.",
)
@kafka_options
def import_seeds(file: Path, preview: bool | None, config: Config) -> None:
    """Publish the records of an exported FILE, or of standard input, and read them back.

    Nothing is published before every line is understood. Seeds that are not in FILE stay.
    """
    records = _records(file)
    bare = records.pop(b"", None)
    found = [read_record(key, value, config.limits) for key, value in records.items()]
    refused = [seed for seed in found if isinstance(seed, RefusedSeed)]
    with seed_topic(config) as topic:
        topic.publish(records)
        say(f"{len(records):,} seeds imported")
        if at_terminal() if preview is None else preview:
            preview_events(topic, config, [seed for seed in found if isinstance(seed, Seed)])
    if bare is not None:
        say("a record without a key is left out: a compacted topic takes none")
    for seed in refused[:NAMED]:
        say(f"refused, as in every worker: {seed.id}: {seed.reason}")
    if len(refused) > NAMED:
        say(f"{len(refused) - NAMED} more are refused; see newsift seeds list")


def preview_events(topic: SeedTopic, config: Config, seeds: list[Seed]) -> None:
    """Say what the events of these seeds would have matched, where they are not too many to try."""
    from worker.actions.seeds.preview import tried
    from worker.actions.seeds.thresholds import MOST, teacher_of
    from worker.cli.seeds.preview import advise, haste, tell

    values = values_of(topic.latest())
    events = known_events(values, config, seeds)
    teacher = teacher_of(config) if 0 < len(seeds) <= MOST else None
    if teacher and (seen := tried(topic, teacher, values, seeds, haste())):
        tell(seen, events, config.topics.posts)
    advise(events)


def _records(file: Path) -> dict[bytes, bytes | None]:
    """The records of a file by key; one without a key stands under an empty one."""
    records: dict[bytes, bytes | None] = {}
    for number, line in each_line(file):
        if not line.strip():
            continue
        key, value = _record(line, f"{file}, line {number}")
        if key in records:
            raise InputError(f"{file}, line {number}: its key stood in a line before; leave one")
        records[key] = value
    if not records:
        raise InputError(f"{file}: holds no seed; each line is {WANTED}")
    return records


def _record(line: bytes, where: str) -> tuple[bytes, bytes]:
    try:
        row = json.loads(line)
        key, value = row["key"], row["value"]
        if value is None:
            raise InputError(f"{where}: has no value; newsift seeds remove deletes a seed")
        return bytes_of_json("" if key is None else key), bytes_of_json(value)
    except InputError:
        raise
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise InputError(f"{where}: is not {WANTED}") from None
