"""`newsift events`: what events have learned, and what their thresholds promise."""

import click

from encoder.errors import InputError
from worker.actions.events.event import NONE, the_event
from worker.actions.events.learning import Learning, School, earlier, go_back, read_events
from worker.actions.events.rows import event_rows
from worker.actions.events.teacher import Teacher
from worker.actions.seeds.topic import SeedTopic, seed_topic
from worker.actions.times import seconds
from worker.cli.events.learn import go_on, learn_once
from worker.cli.events.promise import promise
from worker.cli.events.show import print_event, print_events
from worker.cli.options import JSON, kafka_options
from worker.cli.terminal import consented, refuse_unasked, say
from worker.cli.view.table import print_json
from worker.config import Config
from worker.kafka.reading import connected
from worker.visible import one_line

NAME = click.argument("name", metavar="EVENT")
YES = click.option("--yes", is_flag=True, help="Publish without asking.")


@click.group()
def events() -> None:
    """Show what events have learned from their posts, let them learn, and what is promised."""


@events.command("list")
@JSON
@kafka_options
def list_events(as_json: bool, config: Config) -> None:
    """List the events: seeds, profile, threshold, promise, and how the profile was made."""
    with connected(config) as cluster:
        teacher = Teacher(config)
        cluster.partitions(config.topics.seeds)
        found = read_events(SeedTopic(cluster, config), teacher)[0].values()
        rows = event_rows(cluster, teacher, found)
    if as_json:
        print_json(rows)
    elif rows:
        print_events(rows)
    else:
        say("no events; add seeds with `newsift seeds add FILE --event NAME`")


events.add_command(promise)


@events.command("show")
@NAME
@JSON
@kafka_options
def show_event(name: str, as_json: bool, config: Config) -> None:
    """Show what EVENT has learned: words, numbers, and the versions before."""
    with connected(config) as cluster:
        teacher = Teacher(config)
        event = the_event(read_events(SeedTopic(cluster, config), teacher)[0], name)
        row = event_rows(cluster, teacher, [event])[0]
    if as_json:
        before = event.profile.before if event.profile else ()
        print_json([row | {"before": [record.get("made") for record in before]}])
    else:
        print_event(row, event.profile)


@events.command("learn")
@NAME
@click.option("--since", "span", metavar="SPAN", help="Of the stream so much; 24h if not given.")
@click.option("--labels", is_flag=True, help="And from what people said of posts.")
@click.option(
    "--background", is_flag=True, help="Without a stream: the seeds and what they are not."
)
@click.option("--every", metavar="SPAN", help="Go on so often, for as long as it is safe: 30m.")
@YES
@JSON
@kafka_options
def learn_event(
    name: str, span: str | None, labels: bool, background: bool, every: str | None,
    yes: bool, as_json: bool, config: Config,
) -> None:  # fmt: skip
    """Make a profile of EVENT, show what it changes, and publish it.

    It is made of the mean of the event's seeds, less the everyday posts that are nearest to it, and
    of the best posts of the topic, as far as they agree and are more than before. A profile with a
    promise is left alone.
    """
    refuse_unasked(yes, "learn")
    if background and (every or span):
        raise click.UsageError("--background needs no stream: leave out --since and --every")
    stream = None if background else seconds(span or "24h", "--since")
    pause = None if every is None else seconds(every, "--every")
    with connected(config) as cluster:
        school = School(cluster, Teacher(config), Learning(name, stream, labels))
        well = learn_once(school, yes, as_json, again=pause is not None)
        if well and pause is not None:
            go_on(school, pause)


@events.command()
@NAME
@YES
@kafka_options
def forget(name: str, yes: bool, config: Config) -> None:
    """Go back to the version of EVENT's profile before; without one the seeds serve again."""
    refuse_unasked(yes, "forget")
    with seed_topic(config) as topic:
        teacher = Teacher(config)
        event = the_event(read_events(topic, teacher)[0], name)
        if event.state == NONE:
            raise InputError(f"event {name!r}: has no profile, its seeds serve")
        before = earlier(event.profile)
        said = "the version before" if before else "no profile: its seeds serve"
        if not consented(yes, f"Go back to {said}?"):
            return
        event = go_back(topic, teacher, event)
    version = event.profile.version if event.profile else "-"
    click.echo(f"{one_line(name)}  {version}  back to {said}")
    if event.why:
        say(f"it is {event.state}: {event.why}; the seeds serve")
