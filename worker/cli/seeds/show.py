"""How the commands show seeds: as a table, or whole."""

from collections.abc import Sequence
from types import MappingProxyType

import click

from worker.actions.seeds.rows import AutoThresholds, fields
from worker.actions.seeds.states import SeedRow
from worker.cli.terminal import say
from worker.cli.view.table import print_fields, table
from worker.config import Config
from worker.seeds.profile import Compared
from worker.visible import one_line

HEADER = ("id", "state", "event", "seed_version", "threshold", "expires_at", "title")


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
