"""How the commands show seeds: as a table, whole, or as JSON."""

import time
from collections.abc import Sequence
from typing import Any

import click

from worker.cli.seeds.topic import Latest
from worker.cli.terminal import say
from worker.cli.view.table import print_fields, print_json, table
from worker.config import Config
from worker.kafka.reading import StoredMessage
from worker.posts.times import rfc3339
from worker.seeds.record import RefusedSeed, Seed, read_seed
from worker.seeds.set import too_many
from worker.visible import one_line

SeedRow = dict[str, Any]

HEADER = ("id", "state", "event", "seed_version", "threshold", "expires_at", "title")


def described(found: Seed | RefusedSeed, record: StoredMessage, whole: bool = False) -> SeedRow:
    """A seed, or one that is refused, as a row of JSON."""
    published = {"published_at": rfc3339(max(record.timestamp, 0))}
    if not isinstance(found, Seed):
        text = {"value": (record.value or b"").decode("utf-8", "backslashreplace")} if whole else {}
        return {"id": found.id, "state": "refused", "reason": found.reason, **published, **text}
    row = fields(found) | published
    return row | {"text": found.text} if whole else row | {"characters": len(found.text)}


def rows_of(latest: Latest, config: Config) -> list[SeedRow]:
    """Every seed as a row, those that are refused too, sorted by id."""
    limits = config.limits
    found = {key: read_seed(key, record.value, limits) for key, record in latest.items()}
    over = too_many(found.values(), limits)
    rows = [
        described(over.get(seed.id, seed) if isinstance(seed, Seed) else seed, latest[key])
        for key, seed in found.items() if seed is not None
    ]  # fmt: skip
    return sorted(rows, key=lambda row: str(row["id"]))


def fields(seed: Seed) -> SeedRow:
    """What is said of a seed everywhere."""
    over = seed.expires_at is not None and seed.expires_at <= time.time() * 1000
    return {
        "id": seed.id,
        "state": "paused" if seed.paused else "expired" if over else "live",
        "event": seed.event,
        "seed_version": seed.version,
        "threshold": seed.threshold,
        "expires_at": None if seed.expires_at is None else rfc3339(seed.expires_at),
        "title": seed.title,
        "url": seed.url,
    }


def print_table(rows: Sequence[SeedRow]) -> None:
    """One line a seed; those that are refused say why."""
    if not rows:
        say("no seeds; add one with `newsift seeds add FILE`")
        return
    header = [name.removeprefix("seed_").removesuffix("_at") for name in HEADER]
    table(header, [[_told(row).get(name) for name in HEADER] for row in rows])


def _told(row: SeedRow) -> SeedRow:
    if row["state"] == "refused":
        return row | {"title": row["reason"]}
    return row | {"threshold": "auto" if row["threshold"] is None else f"{row['threshold']:g}"}


def print_seed(row: SeedRow) -> None:
    """Everything about one seed, its text last."""
    print_fields({name: told for name, told in row.items() if name not in ("text", "value")})
    click.echo()
    for line in str(row.get("text") or row.get("value") or "").splitlines():
        click.echo(one_line(line))


def print_told(seed: Seed, said: str, config: Config, as_json: bool) -> None:
    """Say what was published, and what threshold will hold."""
    if as_json:
        print_json([fields(seed) | {"published": said}])
        return
    if seed.threshold is not None:
        threshold = f"threshold {seed.threshold:g}"
    elif config.matching.threshold is not None:
        threshold = f"threshold {config.matching.threshold:g} (matching.threshold)"
    else:
        one_in = round(1 / config.matching.background_rate)
        threshold = f"automatic threshold (1 in {one_in:,} everyday posts reaches it)"
    click.echo(f"{one_line(seed.id)}  {seed.version}  {said}, {threshold}")
