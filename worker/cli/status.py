"""`newsift status`: who works, how far behind, on what seeds, and how fast."""

import click

from worker.actions.standing import IDLE, Row, standing
from worker.cli.options import ONE_JSON, kafka_options
from worker.cli.view.table import print_json, shown, table
from worker.config import Config
from worker.kafka.reading import connected
from worker.kafka.topics import administering
from worker.visible import one_line

SILENT = "unknown: no worker serves its metrics here (web.host, web.port)"
MISSING = "missing; make it with `newsift topics create`"


@click.command()
@ONE_JSON
@kafka_options
def status(as_json: bool, config: Config) -> None:
    """Show workers, lag by partition, rates over a second, seeds, drift, collectors and outputs.

    Collectors are those of this host whose state files lie in the state folder.
    """
    with connected(config) as cluster, administering(config) as admin:
        found = standing(cluster, admin, config)
    if as_json:
        print_json([found])
    else:
        print_status(found)


def print_status(found: Row) -> None:
    """The state of everything, a line each, and a table of the partitions."""
    workers, rates, seeds = found["workers"], found["rates"], found["seeds"]
    lines = {
        "kafka": found["kafka"],
        "workers": f"{len(workers)} in {found['group']} ({found['state']})" if workers
        else f"none in {found['group']}; start one: faust -A worker worker",
        "lag": f"{found['lag']:,} posts",
        "rate": f"{rates['posts_in']:,.0f} posts/s in, {rates['posts_done']:,.0f} posts/s done, "
        f"{rates['matches']:,.1f} matches/s",
        "an hour": _hourly(found["hourly"]),
        "seeds": _seeds(seeds) if seeds else MISSING,
        "drift": one_line(found["drift"] or SILENT),
        "matches": _output(found["matches"]),
        "dead letters": _output(found["dead_letters"]),
    }  # fmt: skip
    for name, line in lines.items():
        click.echo(f"{name:<13} {line}")
    for collector in found["collectors"]:
        click.echo(f"{'collector':<13} {_collector(collector)}")
    for state in IDLE if seeds else ():
        for name, reason in seeds[state].items():
            click.echo(f"{state:<13} {shown(name)}: {one_line(reason)}")
    click.echo()
    header = ("partition", "first", "committed", "end", "lag", "worker")
    table(header, [[row[name] for name in header] for row in found["posts"]["partitions"]])


def _hourly(found: Row) -> str:
    if found["posts"] is None:
        return "too little time has passed since the first post"
    posts, matches = found["posts"], found["matches"]
    return f"about {posts:,.0f} posts and {matches:,.0f} matches, {found['window']}"


def _seeds(found: Row) -> str:
    count = {state: found[state] for state in ("expired", "paused")}
    count |= {state: len(found[state]) for state in IDLE}
    more = [f", {number:,} {state}" for state, number in count.items() if number]
    articles = found["replaced"]
    behind = f", {articles:,} articles by their event's profile" if articles else ""
    return f"{found['live']:,} live{behind}{''.join(more)}"


def _collector(found: Row) -> str:
    state = "running" if found["running"] else "does not run"
    last, saved = found["last_post_at"], found["saved_at"]
    far = f"acknowledged at {one_line(saved)}" if saved else "nothing acknowledged yet"
    of = f", a post of {last}" if last else ""
    gaps, seconds = found["gaps"], found["gap_seconds"]
    lost = f"; gaps: {gaps:,}, of those known {seconds:,.0f} s" if gaps else ""
    return f"{one_line(found['source'])}: {state}; {far}{of}{lost}"


def _output(found: Row) -> str:
    offsets = found["end_offsets"]
    if offsets is None:
        return f"{found['topic']}: {MISSING}"
    told = " ".join(f"{partition}:{offset}" for partition, offset in offsets.items())
    return f"{sum(offsets.values()):,} in {found['topic']} (end offsets {told})"
