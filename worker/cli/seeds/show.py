"""How the commands show seeds: as a table, whole, or as JSON."""

from collections.abc import Sequence

import click

from worker.cli.keyed import Latest
from worker.cli.seeds.states import SeedRow, end_of, judged_records, states
from worker.cli.terminal import say
from worker.cli.view.table import print_fields, print_json, table
from worker.config import Config
from worker.kafka.reading import StoredMessage
from worker.posts.times import rfc3339
from worker.seeds.profile import Compared, Profile
from worker.seeds.record import RefusedSeed, Seed
from worker.visible import one_line

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


def print_table(rows: Sequence[SeedRow]) -> None:
    """One line a seed or profile; those that are refused or stale say why."""
    if not rows:
        say("no seeds; add one with `newsift seeds add FILE`")
        return
    header = [name.removeprefix("seed_").removesuffix("_at") for name in HEADER]
    table(header, [[_told(row).get(name) for name in HEADER] for row in rows])


def _told(row: SeedRow) -> SeedRow:
    title = f"for {', '.join(row['seeds'])}" if "seeds" in row else row.get("title")
    row = row | {"title": row.get("reason", title)}
    if row["state"] == "refused":
        return row
    return row | {"threshold": "auto" if row["threshold"] is None else f"{row['threshold']:g}"}


def print_seed(row: SeedRow) -> None:
    """Everything about one seed, its text last."""
    print_fields({name: told for name, told in row.items() if name not in ("text", "value")})
    click.echo()
    for line in str(row.get("text") or row.get("value") or "").splitlines():
        click.echo(one_line(line))


def print_told(seed: Compared, said: str, config: Config, as_json: bool) -> None:
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
        own = config.matching.background
        posts = f"posts of {own.name}" if own else "everyday posts"
        threshold = f"automatic threshold (1 in {one_in:,} {posts} reaches it)"
    click.echo(f"{one_line(seed.id)}  {seed.version}  {said}, {threshold}")
