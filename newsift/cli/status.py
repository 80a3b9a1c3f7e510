"""`newsift status`: workers, lag, seeds and rates."""

from collections.abc import Sequence

import click

from newsift.cli.options import ONE_JSON, kafka_options
from newsift.cli.output import cell_text, print_fields, print_json, table
from newsift.operations.cluster_status import STATES_WITH_REASON, Row, cluster_status
from worker.config import Config
from worker.kafka.reading import connected
from worker.kafka.topics import admin_client
from worker.text import one_line, plural

NO_TOPIC = "missing; make it with `newsift topics create`"
HIDDEN = "not visible to this user (grant Describe)"


@click.command()
@ONE_JSON
@kafka_options
def status(as_json: bool, config: Config) -> None:
    """Show workers, lag by partition, rates, seeds, collectors and output topics.

    Rates are measured over one second. Collectors are those of this machine whose state files are
    in the state folder.
    """
    with connected(config) as cluster, admin_client(config) as admin:
        report = cluster_status(cluster, admin, config)
    if as_json:
        print_json([report])
    else:
        print_status(report, config.topics.seeds)


def print_status(report: Row, seeds_topic: str) -> None:
    workers, rates, seeds = report["workers"], report["rates"], report["seeds"]
    hourly, hidden = report["hourly"], report["hidden"]
    per_hour = "too little time has passed since the first post"
    if hourly["posts"] is not None:
        matches = f" and {hourly['matches']:,.0f} matches" if hourly["matches"] is not None else ""
        per_hour = f"about {hourly['posts']:,.0f} posts{matches}, {hourly['window']}"
    match_rate = f", {rates['matches']:,.1f} matches/s" if rates["matches"] is not None else ""
    lines = {
        "kafka": report["kafka"],
        "workers": f"{len(workers)} in {report['group']} ({report['state']})" if workers
        else f"none in {report['group']}; start one: faust -A worker worker",
        "lag": plural(report["lag"], "post"),
        "rate": f"{rates['posts_in']:,.0f} posts/s in, {rates['posts_done']:,.0f} posts/s done"
        f"{match_rate}",
        "an hour": per_hour,
        "reader": _reader(report["reader"]),
        "skimming": _control(report["control"]),
        "seeds": seeds_line(seeds) if seeds else _absent(seeds_topic, hidden),
        "matches": _output(report["matches"], hidden) + _links(report["links"]),
        "dead letters": _output(report["dead_letters"], hidden),
    }  # fmt: skip
    print_fields(lines)
    for collector in report["collectors"]:
        print_fields({"collector": _collector(collector)})
    for state in STATES_WITH_REASON if seeds else ():
        for name, reason in seeds[state].items():
            print_fields({state: f"{cell_text(name)}: {reason}"})
    click.echo()
    header = ("partition", "first", "committed", "end", "lag", "worker")
    table(header, [[row[name] for name in header] for row in report["posts"]["partitions"]])


def seeds_line(seeds: Row) -> str:
    count = {state: seeds[state] for state in ("expired", "paused")}
    count |= {state: len(seeds[state]) for state in STATES_WITH_REASON}
    more = [f", {number:,} {state}" for state, number in count.items() if number]
    articles = seeds["replaced"]
    replaced_text = f", {plural(articles, 'article')} by their event's profile" if articles else ""
    return f"{seeds['live']:,} live{replaced_text}{''.join(more)}"


def _collector(collector: Row) -> str:
    state = "running" if collector["running"] else "does not run"
    last, saved_at = collector["last_post_at"], collector["saved_at"]
    position = f"acknowledged at {one_line(saved_at)}" if saved_at else "nothing acknowledged yet"
    last_post = f", a post of {last}" if last else ""
    gaps, seconds = collector["gaps"], collector["gap_seconds"]
    loss = f"; gaps: {gaps:,}, of those known {seconds:,.0f} s" if gaps else ""
    return f"{one_line(collector['source'])}: {state}; {position}{last_post}{loss}"


def _reader(reader: Row) -> str:
    if reader["name"] == "skim":
        return "skim: scores are approximate, and no promise is in force"
    return f"read (read_factor {reader['read_factor']})"


def _control(control: Row | None) -> str:
    if control is None:
        return "no worker of yours on this machine tells what it loses"
    if not control["read"]:
        return "nothing was read yet as a control of what it loses"
    return (
        f"loses about {control['lost']:,} posts ({control['low']:,} to {control['high']:,}) that "
        f"would match, beside {control['matched']:,} that do: {control['would_match']:,} of "
        f"{control['read']:,} read as a control"
    )


def _links(posts: int | None) -> str:
    if not posts:
        return ""
    return f"; {plural(posts, 'post')} by a link to a story since the workers started"


def _absent(topic: str, hidden: Sequence[str]) -> str:
    return f"{topic}: {HIDDEN if topic in hidden else NO_TOPIC}"


def _output(output: Row, hidden: Sequence[str]) -> str:
    offsets = output["end_offsets"]
    if offsets is None:
        return _absent(output["topic"], hidden)
    offset_list = " ".join(f"{partition}:{offset}" for partition, offset in offsets.items())
    return f"{sum(offsets.values()):,} in {output['topic']} (end offsets {offset_list})"
