"""`newsift events`: what events have learned, learning, and promises."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import click

from encoder.errors import InputError
from newsift.cli.group import CommandGroup
from newsift.cli.options import JSON, YES, FiniteRange, kafka_options, option_group, since_option
from newsift.cli.output import print_fields, print_json, table
from newsift.cli.signals import Terminated
from newsift.cli.terminal import confirm_publish, require_yes
from newsift.operations.events import (
    IN_FORCE,
    NO_PROFILE,
    EventState,
    attempts_of,
    lowest_and_highest,
    require_event,
)
from newsift.operations.messages import capture, notify, notify_version
from newsift.operations.model_context import ModelContext
from newsift.operations.profile_training import (
    LearnOptions,
    ProfileTraining,
    Proposal,
    previous_profile,
    proposal_row,
    propose_profile,
    publication_risk,
    read_events,
    report_labels,
    report_stream,
)
from newsift.operations.promises import (
    PromiseEvidence,
    describe_missing,
    event_rows,
    promise_row,
    read_evidence,
    read_pass_rates,
    report_promise,
    require_profile,
    require_version,
    set_promise,
)
from newsift.operations.seed_topic import SeedTopic, seed_topic
from newsift.operations.times import parse_seconds
from newsift.statistics.estimates import percent
from newsift.statistics.labels import Goal, Label
from newsift.statistics.queues import chosen_goal
from worker.config import Config
from worker.errors import ConflictError
from worker.kafka.reading import connected
from worker.posts.compare import as_text
from worker.seeds.profile import Profile
from worker.seeds.state import ControlState
from worker.text import one_line, plural, shorten

HEADER = ("event", "seeds", "profile", "threshold", "promise", "made", "by", "from")
MAX_POST_CHARS = 160
MAX_WORDS = 10
SHARE = FiniteRange(0, 1, min_open=True, max_open=True)
NAME = click.argument("name", metavar="EVENT")


@click.group(cls=CommandGroup)
def events() -> None:
    """List events, let them learn from posts and labels, and set a threshold that labels prove."""


@events.command("list")
@JSON
@kafka_options
def list_events(as_json: bool, config: Config) -> None:
    """List the events: seeds, profile, threshold, promise, and how the profile was made."""
    with connected(config) as cluster:
        context = ModelContext(config)
        cluster.partitions(config.topics.seeds)
        events = read_events(SeedTopic(cluster, config), context)[0].values()
        rows = event_rows(cluster, context, events)
    if as_json:
        print_json(rows)
    elif rows:
        pairs = zip(rows, events, strict=True)
        table(HEADER, [_cells(row, _is_automatic(event, config)) for row, event in pairs])
    else:
        notify("no events; add seeds with `newsift seeds add FILE --event NAME`")


@events.command("show")
@NAME
@JSON
@kafka_options
def show_event(name: str, as_json: bool, config: Config) -> None:
    """Show what EVENT has learned: words, numbers, and earlier versions."""
    with connected(config) as cluster:
        context = ModelContext(config)
        event = require_event(read_events(SeedTopic(cluster, config), context)[0], name)
        row = event_rows(cluster, context, [event])[0]
    before = event.profile.before if event.profile else ()
    if as_json:
        print_json([row | {"before": [record.get("made") for record in before]}])
        return
    fields = dict(zip(HEADER[:5], _cells(row, _is_automatic(event, config)), strict=False)) | {
        "seeds": ", ".join(row["seeds"])
    }
    creation = row["made"]
    for key in ("at", "by", "method", "beta", "gamma", "cohesion", "labels", "attempts"):
        fields[key] = creation.get(key)
    posts = creation.get("posts")
    fields["posts"] = len(posts) if isinstance(posts, list) else None
    fields["version"] = row["version"]
    fields |= {key: words_text(creation.get(key)) for key in ("gained", "lost")}
    print_fields(fields)
    for number, record in enumerate(before, 1):
        creation = record.get("made")
        creation = creation if isinstance(creation, dict) else {}
        parts = [f"before {number}", creation.get("at"), creation.get("by"), creation.get("method")]
        click.echo("  ".join(one_line(str(part)) for part in parts if part))


def _is_automatic(event: EventState, config: Config) -> bool:
    """Whether the thresholds of an event are computed, and not set."""
    in_force = event.profile_status == IN_FORCE and event.profile
    own = [item.threshold for item in ((event.profile,) if in_force else event.seeds) if item]
    return config.matching.threshold is None and not any(own)


def _cells(row: dict[str, Any], automatic: bool) -> list[object]:
    state = f"{row['profile']}: {row['why']}" if row["why"] else row["profile"]
    thresholds = thresholds_text(row["thresholds"])
    if row["thresholds"] and automatic:
        thresholds += " auto"
    promise = _promise_text(row["promise"])
    if row["lapsed"]:
        promise = f"{promise}, lapsed: {row['lapsed']}"
    origin = [row["made"].get(name) for name in ("at", "by", "method")]
    seeds = str(len(row["seeds"]))
    if row["expired"]:
        seeds += f" ({len(row['expired'])} expired)"
    return [row["event"], seeds, state, thresholds, promise, *origin]


def _promise_text(promise: Any) -> str:
    """A record may hold anything."""
    if not isinstance(promise, dict):
        return ""
    precision, confidence = promise.get("precision"), promise.get("confidence")
    if not (isinstance(precision, float) and isinstance(confidence, float)):
        return "unreadable"
    return f"{precision:g} at {percent(confidence)} %"


def words_text(words: Any) -> str:
    """Words with the changes of their weights; a record may hold anything."""
    texts = []
    for pair in words[:MAX_WORDS] if isinstance(words, list) else ():
        if isinstance(pair, list | tuple) and len(pair) == 2:
            word, change = pair
            number = f" {change:+.3f}" if isinstance(change, float | int) else ""
            texts.append(f"{shorten(one_line(str(word)), 40)}{number}")
    return "  ".join(texts)


def thresholds_text(thresholds: Sequence[float]) -> str:
    """One, or the lowest and the highest."""
    texts = dict.fromkeys(f"{threshold:.4f}" for threshold in lowest_and_highest(thresholds))
    return "–".join(texts) or "-"


@dataclass(frozen=True, slots=True)
class Material:
    """What an event learns from, and how often."""

    span: str | None
    labels: bool
    background: bool
    every: str | None


@events.command("learn")
@NAME
@option_group(
    "material",
    Material,
    click.option("--since", "span", metavar="SPAN",
                 help="How much of the stream to read, back from now; by default 24h."),
    click.option("--labels", is_flag=True, help="Learn from labels too."),
    click.option("--background", is_flag=True,
                 help="Read no stream; use the seeds and the background alone."),
    click.option("--every", metavar="SPAN",
                 help="Learn again at this interval, such as 30m, as long as it is safe."),
)  # fmt: skip
@YES
@JSON
@kafka_options
def learn_event(name: str, material: Material, yes: bool, as_json: bool, config: Config) -> None:
    """Make a profile of EVENT, show what it changes, and publish it.

    A profile is what the event's seeds have in common, less what everyday posts share with them,
    plus what the best posts of the topic have in common, if these agree and are more than usual.
    Posts are then compared with the profile instead of with each seed. A profile with a promise is
    not changed.
    """
    require_yes(yes, "learn")
    if material.background and (material.every or material.span):
        raise click.UsageError("--background needs no stream: leave out --since and --every")
    stream = None if material.background else parse_seconds(material.span or "24h", "--since")
    pause = None if material.every is None else parse_seconds(material.every, "--every")
    with connected(config) as cluster:
        options = LearnOptions(name, stream, material.labels)
        training = ProfileTraining(cluster, ModelContext(config), options)
        may_continue = learn_once(training, yes, as_json, again=pause is not None)
        if may_continue and pause is not None:
            learn_repeatedly(training, pause)


def learn_once(training: ProfileTraining, yes: bool, as_json: bool, again: bool = False) -> bool:
    """Show a proposal, and publish it on consent. Returns whether learning may go on."""
    proposal, state = training.propose()
    report_stream(proposal)
    report_labels(proposal)
    risk = publication_risk(proposal) if again and yes else ""
    if not as_json:
        print_proposal(proposal)
    further = ", and those to come while it is safe" if again else ""
    question = f"Publish this profile of {proposal.event.name!r}{further}?"
    consent = proposal.is_news and not risk and confirm_publish(yes, question)
    if consent:
        training.publish(proposal, state)
        notify_version(state)
    elif not proposal.is_news:
        notify("nothing new: the profile stays as it is")
    if risk:
        notify(f"nothing was published, it would not be safe: {risk}")
    if as_json:
        print_json([proposal_row(proposal, consent)])
    elif consent:
        notify(f"published: {proposal.profile.id} {proposal.profile.version}")
    return consent or not (proposal.is_news or risk)


def learn_repeatedly(training: ProfileTraining, every: float) -> None:
    """Learn for as long as it is safe; SIGTERM ends it.

    If another person has published in between, the next round tries again.
    """
    with suppress(Terminated):
        while True:
            time.sleep(every)
            proposal, state = training.propose()
            if risk := publication_risk(proposal):
                notify(f"stopped, the profile stays as it is: {risk}")
                return
            if proposal.is_news:
                try:
                    training.publish(proposal, state)
                except ConflictError as error:
                    notify(f"{error}; the next round tries again")
                    continue
                notify_version(state)
                read, passes = proposal.comparison.read, proposal.comparison.passes
                change = f"{passes[0]:,} → {passes[1]:,} of {read:,} posts pass"
                notify(f"published: {proposal.profile.version}, {change}")


def print_proposal(proposal: Proposal) -> None:
    creation, comparison = proposal.profile.made, proposal.comparison
    origin = f"{creation['method']} (β {creation['beta']:.2f}, γ {creation['gamma']:g}"
    if creation["posts"] or creation["cohesion"]:
        origin += f", cohesion {creation['cohesion']:.2f}, {plural(len(creation['posts']), 'post')}"
    origin += f", {plural(creation['labels'], 'label')})" if creation["labels"] else ")"
    fields = {"event": proposal.event.name, "learned from": origin}
    fields |= {name: words_text(creation[name]) for name in ("gained", "lost")}
    fields["threshold"] = " → ".join(map(thresholds_text, proposal.thresholds))
    before, after = proposal.background_rates
    fields["background"] = f"{before:.1f} → {after:.1f} of 1,000 posts pass"
    if comparison.read:
        before, after = comparison.passes
        fields["stream"] = f"{before:,} → {after:,} of {comparison.read:,} posts pass"
        if proposal.hours >= 1 / 60:
            rates = f"{before / proposal.hours:,.1f} → {after / proposal.hours:,.1f}"
            fields["stream"] += f", {rates} an hour"
    print_fields(fields)
    for sign, posts in (("+", comparison.new_matches), ("-", comparison.lost_matches)):
        for candidate in posts:
            text = shorten(one_line(as_text(candidate.post).text), MAX_POST_CHARS)
            click.echo(f"  {sign} {candidate.score:.2f}  {text}")


@events.command()
@NAME
@YES
@kafka_options
def forget(name: str, yes: bool, config: Config) -> None:
    """Go back to the previous version of EVENT's profile, or to its seeds if there is none."""
    require_yes(yes, "forget")
    with seed_topic(config) as topic:
        context = ModelContext(config)
        events, state = read_events(topic, context)
        event = require_event(events, name)
        if event.profile_status == NO_PROFILE:
            raise InputError(f"event {name!r}: has no profile; its seeds are used")
        before = previous_profile(event.profile)
        target = "the previous version" if before else "no profile: its seeds are used"
        if not confirm_publish(yes, f"Go back to {target}?"):
            return
        value = before.value(config.limits) if before else None
        topic.publish({event.key: value}, state)
        event = read_events(topic, context)[0].get(name, EventState(name))
        notify_version(state)
    version = event.profile.version if event.profile else "-"
    click.echo(f"{one_line(name)}  {version}  back to {target}")
    if event.why:
        notify(f"it is {event.profile_status}: {event.why}; the seeds are used")


@dataclass(frozen=True, slots=True)
class PromiseLevel:
    precision: float | None
    confidence: float | None

    def goal(self, labels: Sequence[Label]) -> Goal:
        """What is not given is what the labels were to prove."""
        precision, confidence = chosen_goal(labels)
        return self.precision or precision, self.confidence or confidence


@events.command()
@NAME
@option_group(
    "level",
    PromiseLevel,
    click.option("--precision", type=SHARE,
                 help="The promised share of right matches; by default the labels' goal, or 0.8."),
    click.option("--confidence", type=SHARE,
                 help="How sure the promise is; by default the labels' goal, or 0.9."),
)  # fmt: skip
@since_option("Matches from this time on: 2h, or in RFC 3339; else of 24 hours.", default="24h")
@YES
@JSON
@kafka_options
def promise(
    name: str, level: PromiseLevel, start: int, yes: bool, as_json: bool, config: Config
) -> None:
    """Set the lowest threshold from which labels prove that enough of EVENT's matches are right.

    The labels are those of `newsift labels ask EVENT`; if there are too few, the command says how
    many more it takes if none of them is off. What is proven goes with the threshold, as a promise.
    It is true of one version of the profile, which then learns no more. It lapses when so few posts
    match that most of them would match without the event too. `newsift events forget` ends it.
    """
    with connected(config) as cluster:
        context, topic = ModelContext(config), SeedTopic(cluster, config)
        events, state = read_events(topic, context)
        event = require_event(events, name).require_seeds()
        if event.profile_status == NO_PROFILE:
            _publish_first_profile(topic, state, context, event, yes, as_json)
            return
        profile = require_profile(event)
        evidence = read_evidence(cluster, config, profile, level.goal, start)
        if not as_json:
            click.echo(_evidence_text(evidence))
        consent = _confirm_threshold(profile, evidence, yes)
        if consent:
            with capture():  # it has said already which labels are refused
                now = read_evidence(cluster, config, profile, level.goal, start)
            require_version(evidence.version, now)
            event = set_promise(topic, state, context, profile, evidence)
            report_promise(event, read_pass_rates(cluster, context)(event.profile or profile))
            notify_version(state)
    if as_json:
        print_json([promise_row(name, evidence, consent)])


def _publish_first_profile(
    topic: SeedTopic, state: ControlState, context: ModelContext, event: EventState, yes: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """A promise needs a profile, and labels of the profile's own matches."""
    notify("a promise needs a profile: this one, of the seeds and the background, comes first")
    proposal = propose_profile(context, event, None, (), attempts_of(event.profile))
    if not as_json:
        print_proposal(proposal)
    require_yes(yes, "promise")
    consent = confirm_publish(yes, f"Publish this profile of {event.name!r}?")
    if consent:
        topic.publish({event.key: proposal.value}, state)
        notify(f"published; label its matches now: newsift labels ask {one_line(event.name)}")
    if as_json:
        print_json([proposal_row(proposal, consent)])


def _evidence_text(evidence: PromiseEvidence) -> str:
    target = evidence.target
    promise = f"precision {target.precision:g} at {percent(target.confidence)}% confidence"
    labels = f"{plural(evidence.labels, 'label')}, {evidence.on} of them on the event"
    evidence_text = f"{labels}, of {plural(evidence.matches, 'match')}"
    if evidence.threshold is None:
        return f"{promise}: not shown by {evidence_text}"
    return f"{promise}: shown from {evidence.threshold:.4f} on, by {evidence_text}"


def _confirm_threshold(profile: Profile, evidence: PromiseEvidence, yes: bool) -> bool:
    """Reports what is missing where there is no threshold."""
    if evidence.threshold is None:
        ask = f": newsift labels ask {one_line(profile.event)}" if evidence.more else ""
        older = "" if evidence.matches else ", or give --since an earlier time"
        notify(f"{describe_missing(evidence)}{ask}{older}")
        return False
    if evidence.more:
        missing = plural(evidence.missing, "more label")
        notify(f"{missing} would prove a lower threshold, if none is off")
    require_yes(yes, "promise")
    question = f"Set the threshold of {profile.event!r} to {evidence.threshold:.4f}?"
    return confirm_publish(yes, question)
