"""How the commands show seeds: as a table, whole, or as JSON."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import click

from worker.cli.keyed import Latest
from worker.cli.seeds.states import SeedRow, end_of, judged_records, states
from worker.cli.terminal import say
from worker.cli.view.table import print_fields, table
from worker.config import Config
from worker.kafka.reading import StoredMessage
from worker.posts.times import rfc3339
from worker.seeds.profile import Compared, Profile
from worker.seeds.record import RefusedSeed, Seed
from worker.visible import one_line

AutoThresholds = Mapping[str, float]  # by the ids of seeds and profiles
HEADER = ("id", "state", "event", "seed_version", "threshold", "expires_at", "title")


def described(found: Compared | RefusedSeed, record: StoredMessage, whole: bool = False) -> SeedRow:
    """A seed or a profile, or one that is refused, as a row of JSON."""
    published = {"published_at": rfc3339(max(record.timestamp, 0))}
    if isinstance(found, RefusedSeed):
        text = {"value": (record.value or b"").decode("utf-8", "backslashreplace")} if whole else {}
        return {"id": found.id, "state": "refused", "reason": found.reason, **published, **text}
    row = fields(found) | published
    if isinstance(found, Profile):
        learned = {"model": found.model, "promise": found.promise, "made": found.made}
        return row | {"seeds": sorted(found.seeds)} | (learned if whole else {})
    return row | {"text": found.text} if whole else row | {"characters": len(found.text)}


def rows_of(latest: Latest, config: Config) -> list[SeedRow]:
    """Every seed and profile as a row, those that are refused too, sorted by id."""
    judged = judged_records(latest, config)
    stands = states(judged.values(), config)
    rows = [described(each, latest[key]) | stands.get(key, {}) for key, each in judged.items()]
    return sorted(rows, key=lambda row: str(row["id"]))


def whole_row(latest: Latest, key: bytes, config: Config) -> SeedRow:
    """All about one of them."""
    judged = judged_records(latest, config)
    stands = states(judged.values(), config)
    return described(judged[key], latest[key], whole=True) | stands.get(key, {})


def fields(seed: Compared) -> SeedRow:
    """What is said of a seed everywhere."""
    end = end_of(seed.expires_at if isinstance(seed, Seed) else None)
    paused = isinstance(seed, Seed) and seed.paused
    return {
        "id": seed.id,
        "state": "paused" if paused else end["state"],
        "event": seed.event,
        "seed_version": seed.version,
        "threshold": seed.threshold,
        "expires_at": end["expires_at"],
        "title": seed.title,
        "url": seed.url,
    }


def print_table(rows: Sequence[SeedRow], common: float | None) -> None:
    """One line a seed or profile; those that are refused or stale say why.

    `common` is the threshold that the configuration gives those which have none.
    """
    if not rows:
        say("no seeds; add one with `newsift seeds add FILE`")
        return
    header = [name.removeprefix("seed_").removesuffix("_at") for name in HEADER]
    table(header, [[_told(row, common).get(name) for name in HEADER] for row in rows])


def _told(row: SeedRow, common: float | None) -> SeedRow:
    title = f"for {', '.join(row['seeds'])}" if "seeds" in row else row.get("title")
    row = row | {"title": row.get("reason", title)}
    if row["state"] == "refused":
        return row
    return row | {"threshold": threshold_told(row, common)}


def threshold_told(row: SeedRow, common: float | None) -> str:
    """The threshold of a seed: its own, the configuration's, or the automatic one as a number."""
    if row["threshold"] is not None:
        return f"{row['threshold']:g}"
    if common is not None:
        return f"{common:g} (matching.threshold)"
    found = row.get("auto_threshold")
    return "auto" if found is None else f"auto {found:.4f}"


def print_seed(row: SeedRow, common: float | None) -> None:
    """Everything about one seed, its text last."""
    if "threshold" in row:
        row = row | {"threshold": threshold_told(row, common)}
    last = ("text", "value", "auto_threshold")
    print_fields({name: told for name, told in row.items() if name not in last})
    click.echo()
    for line in str(row.get("text") or row.get("value") or "").splitlines():
        click.echo(one_line(line))


def print_told(
    seed: Compared, said: str, config: Config, auto: AutoThresholds = MappingProxyType({})
) -> None:
    """Say what was published, and what threshold will hold."""
    threshold = f"threshold {threshold_told(fields(seed), config.matching.threshold)}"
    if config.matching.threshold is None and seed.threshold is None:
        one_in = round(1 / config.matching.background_rate)
        own = config.matching.background
        posts = f"posts of {own.name}" if own else "everyday posts"
        number = f" {auto[seed.id]:.4f}" if seed.id in auto else ""
        threshold = f"automatic threshold{number} (1 in {one_in:,} {posts} reaches it)"
    click.echo(f"{one_line(seed.id)}  {seed.version}  {said}, {threshold}")
