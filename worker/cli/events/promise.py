"""`newsift events promise`: the threshold that the labels of an event show, and setting it."""

import click

from worker.actions.events.event import NONE, KnownEvent, Values, the_event
from worker.actions.events.learning import read_events
from worker.actions.events.lesson import proposed
from worker.actions.events.promising import (
    Shown,
    Wish,
    missing,
    promisable,
    promise_row,
    promise_shown,
    set_promise,
)
from worker.actions.events.rows import proposal_row
from worker.actions.events.teacher import Teacher, attempts_at
from worker.actions.seeds.topic import SeedTopic
from worker.actions.times import since
from worker.cli.events.show import print_proposal
from worker.cli.options import JSON, kafka_options, since_option
from worker.cli.terminal import consented, refuse_unasked, say
from worker.cli.view.table import print_json
from worker.config import Config
from worker.kafka.reading import connected
from worker.seeds.profile import Profile
from worker.visible import one_line

SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)


@click.command()
@click.argument("name", metavar="EVENT")
@click.option("--precision", type=SHARE, default=0.8, show_default=True, help="Of the matches.")
@click.option("--confidence", type=SHARE, default=0.9, show_default=True, help="Of the promise.")
@since_option("Matches from this time on: 2h, or in RFC 3339; else of 24 hours.")
@click.option("--yes", is_flag=True, help="Publish without asking.")
@JSON
@kafka_options
def promise(
    name: str, precision: float, confidence: float, start: int | None, yes: bool, as_json: bool,
    config: Config,
) -> None:  # fmt: skip
    """Say the threshold above which EVENT's matches are right, and set it.

    What it promises is shown by the labels of `newsift labels ask EVENT`, or it says how many are
    missing if none is wrong. It is of one version of the profile, which learning leaves alone from
    then on; it lapses when so few posts pass that most would pass without the event too. `newsift
    events forget` gives it up.
    """
    with connected(config) as cluster:
        teacher, topic = Teacher(config), SeedTopic(cluster, config)
        events, values = read_events(topic, teacher)
        event = the_event(events, name).taught()
        if event.state == NONE:
            _first_profile(topic, teacher, event, values, yes, as_json)
            return
        profile = promisable(event)
        wish = Wish.of(profile, precision, confidence)
        begin = since("24h") if start is None else start
        shown = promise_shown(cluster, config, profile, wish, begin)
        if not as_json:
            click.echo(_told(wish, shown))
        set_it = _agreed(profile, shown, yes)
        if set_it:
            set_promise(topic, teacher, profile, wish, shown)
    if as_json:
        print_json([promise_row(name, wish, shown, set_it)])


def _first_profile(
    topic: SeedTopic, teacher: Teacher, event: KnownEvent, values: Values, yes: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Give an event a profile: a promise is of one, and of labels of its own matches."""
    say("a promise is of a profile: this one, of the seeds and the background, comes first")
    proposal = proposed(teacher, event, values, None, ([], []), attempts_at(event.profile))
    if not as_json:
        print_proposal(proposal)
    refuse_unasked(yes, "promise")
    agreed = consented(yes, f"Publish this profile of {event.name!r}?")
    if agreed:
        topic.publish({event.key: proposal.value})
        say(f"published; label its matches now: newsift labels ask {one_line(event.name)}")
    if as_json:
        print_json([proposal_row(proposal, agreed)])


def _told(wish: Wish, shown: Shown) -> str:
    """What the labels show."""
    held = f"precision {wish.precision:g} at {wish.confidence:.0%} confidence"
    of = f"{shown.labels} labels, {shown.on} of them on the event, of {shown.matches} matches"
    if shown.threshold is None:
        return f"{held}: not shown by {of}"
    return f"{held}: shown from {shown.threshold:.4f} on, by {of}"


def _agreed(profile: Profile, shown: Shown, yes: bool) -> bool:
    """Whether the threshold is to be set; else what is missing is said."""
    if shown.threshold is None:
        ask = f": newsift labels ask {one_line(profile.event)}" if shown.more else ""
        earlier = "" if shown.matches else ", or give --since an earlier time"
        say(f"{missing(shown)}{ask}{earlier}")
        return False
    if shown.more:
        say(f"{shown.missing} more labels would show a lower threshold, if none is wrong")
    refuse_unasked(yes, "promise")
    return consented(yes, f"Set the threshold of {profile.event!r} to {shown.threshold:.4f}?")
