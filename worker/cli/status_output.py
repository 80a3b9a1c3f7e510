"""How `newsift status` is shown to people."""

from typing import Any

import click

from worker.cli.view.table import shown, table
from worker.visible import one_line

Row = dict[str, Any]
MISSING = "missing; make it with `newsift topics create`"


def print_status(found: Row) -> None:
    """The state of everything, a line each, and a table of the partitions."""
    workers, rates = found["workers"], found["rates"]
    lines = {
        "kafka": found["kafka"],
        "workers": f"{len(workers)} in {found['group']} ({found['state']})" if workers
        else f"none in {found['group']}; start one: faust -A worker worker",
        "lag": f"{found['lag']:,} posts",
        "rate": f"{rates['posts_in']:,.0f} posts/s in, {rates['posts_done']:,.0f} posts/s done, "
        f"{rates['matches']:,.1f} matches/s",
        "seeds": _seeds(found["seeds"]),
        "matches": _output(found["matches"]),
        "dead letters": _output(found["dead_letters"]),
    }  # fmt: skip
    for name, line in lines.items():
        click.echo(f"{name:<13} {line}")
    for name, reason in ((found["seeds"] or {}).get("refused") or {}).items():
        click.echo(f"{'refused':<13} {shown(name)}: {one_line(reason)}")
    click.echo()
    rows = found["posts"]["partitions"]
    header = ("partition", "first", "committed", "end", "lag", "worker")
    table(header, [[row[name] for name in header] for row in rows])


def _seeds(found: Row | None) -> str:
    if found is None:
        return MISSING
    parts = [f"{found['live']:,} live"]
    parts += [f"{found['expired']:,} expired"] if found["expired"] else []
    parts += [f"{found['paused']:,} paused"] if found["paused"] else []
    parts += [f"{len(found['refused']):,} refused"] if found["refused"] else []
    return ", ".join(parts)


def _output(found: Row) -> str:
    offsets = found["end_offsets"]
    if offsets is None:
        return f"{found['topic']}: {MISSING}"
    told = " ".join(f"{partition}:{offset}" for partition, offset in offsets.items())
    return f"{sum(offsets.values()):,} in {found['topic']} (end offsets {told})"
