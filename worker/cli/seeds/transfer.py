"""`newsift seeds export` and `import`: all records of the control topic, as they are, in a file."""

from pathlib import Path

import click

from worker.actions.events.event import values_of
from worker.actions.seeds.known_events import known_events
from worker.actions.seeds.topic import SeedTopic, seed_topic
from worker.actions.seeds.transfer import exported, exported_records
from worker.cli.options import kafka_options
from worker.cli.terminal import at_terminal, say
from worker.config import Config
from worker.files.out.formats import check_ending, json_file
from worker.files.read import DASH
from worker.files.write import check_targets
from worker.seeds.profile import read_record
from worker.seeds.record import RefusedSeed, Seed

ENDINGS = (".jsonl", ".json")
NAMED = 10  # refused seeds that are told by their ids


@click.command()
@click.argument("file", default=DASH, metavar="[FILE]", type=click.Path(path_type=Path))
@kafka_options
def export(file: Path, config: Config) -> None:
    """Write the latest record of every seed to FILE, or to standard output, as JSON lines.

    A FILE whose name ends with .json gets one array.

    Refused seeds are among them. Keys and values are kept to the byte: text as it is, else base64.
    """
    check_targets({"FILE": file}, [])
    check_ending("FILE", file, ENDINGS)
    with seed_topic(config) as topic:
        latest = topic.latest()
    count = 0
    with json_file(file) as add:
        for line in exported(latest):
            add(line)
            count += 1
    say(f"{count:,} seeds exported")


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
    records = exported_records(file)
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
    from worker.actions.seeds.look_back import tried
    from worker.actions.seeds.thresholds import MOST, teacher_of
    from worker.cli.seeds.preview import advise, haste, tell

    values = values_of(topic.latest())
    events = known_events(values, config, seeds)
    teacher = teacher_of(config) if 0 < len(seeds) <= MOST else None
    if teacher and (seen := tried(topic, teacher, values, seeds, haste())):
        tell(seen, events, config.topics.posts)
    advise(events)
