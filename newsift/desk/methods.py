"""A paragraph on methods for a paper: each number is from the topics; what is not known is said.

Names and values that strangers wrote are shown in one line, cut where they are long.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from newsift.desk.export import MatchCounts, Selection, span_of
from newsift.operations.cluster_status import read_offsets
from newsift.statistics.estimates import agreements
from newsift.statistics.labels import Label
from worker.config import Config, MatchingConfig
from worker.kafka.reading import TopicReader
from worker.posts.times import rfc3339
from worker.seeds.profile import Profile
from worker.seeds.record import Seed
from worker.seeds.state import ControlState
from worker.text import one_line

MOST_NAMED = 20  # seeds, versions and pairs of judges that are named one by one
LONGEST = 80  # characters of a name
DRAWN = {
    "certify": "drawn at random from the matches",
    "learn": "chosen near the threshold",
    "given": "given otherwise",
}
REFERENCE = (
    "Danovitch, J. (2019). Linking Social Media Posts to News with Siamese Transformers. "
    "arXiv:2001.03303."
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known; None where it is not."""

    selection: Selection
    tally: MatchCounts
    seeds: tuple[Seed, ...]  # of the event as the control topic has it now, paused ones too
    profile: Profile | None
    messages: int | None  # that the workers read in that time
    labels: tuple[Label, ...]
    matching: MatchingConfig  # of the desk; the workers had it if their sets of seeds are its own
    seed_set: str | None  # that the configuration of the desk makes of the control topic now
    version: str  # of the desk


def facts_of(
    cluster: TopicReader, admin: Any, config: Config, selection: Selection, tally: MatchCounts,
    state: ControlState, labels: Sequence[Label], seed_set: str | None,
) -> Facts:  # fmt: skip
    """What the topics say now; `state` is that of the control topic."""
    own = (seed for seed in state.seeds.values() if seed.event == selection.event)
    seeds = tuple(sorted(own, key=lambda seed: seed.id))
    profile = state.profiles.get(selection.event)
    messages = _messages(cluster, admin, config, selection)
    rest = tuple(labels), config.matching, seed_set, version("newsift")
    return Facts(selection, tally, seeds, profile, messages, *rest)


def _messages(cluster: TopicReader, admin: Any, config: Config, selection: Selection) -> int | None:
    """How many messages the workers read in that time; None where some are deleted by now."""
    topic = config.topics.posts
    if not cluster.exists(topic):
        return None
    start, end = selection.span(cluster, topic)
    posts = read_offsets(cluster, admin, config).posts
    if any(start[part] <= backlog.first and backlog.first for part, backlog in posts.items()):
        return None
    return sum(
        max(min(end[part], backlog.done) - start[part], 0) for part, backlog in posts.items()
    )


@dataclass
class Paragraph:
    """Sentences on what is known, and names of what is not."""

    sentences: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def add(self, sentence: str) -> None:
        """Append a sentence."""
        self.sentences.append(sentence)

    def text(self) -> str:
        """All of it, the source of the method at its end."""
        unknown = f"Not known: {'; '.join(self.unknown)}." if self.unknown else ""
        parts = [" ".join(self.sentences), unknown, f"Reference: {REFERENCE}"]
        return "\n\n".join(filter(None, parts)) + "\n"


def methods(facts: Facts) -> str:
    """How the matches of an event came about, in words that a paper can take over."""
    paragraph = Paragraph()
    for part in (_model, _seeds, _profile, _threshold, _window, _matches, _labels, _promise):
        part(facts, paragraph)
    paragraph.unknown.append("the version of newsift that the workers ran, as matches name none")
    return paragraph.text()


def markdown(facts: Facts) -> str:
    """The same as a page of its own."""
    return f"# Methods: {_escaped(named(facts.selection.event))}\n\n{_escaped(methods(facts))}"


def named(text: object, longest: int = LONGEST) -> str:
    """A name that a stranger gave, in one line."""
    line = one_line(str(text))
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def _model(facts: Facts, paragraph: Paragraph) -> None:
    """What compared posts with the event."""
    event = named(facts.selection.event)
    paragraph.add(
        f'Social media posts on the event "{event}" were found with newsift (its desk is version '
        f"{facts.version}), an Adaptive Siamese Transformer (Danovitch, 2019)."
    )
    if not facts.tally.models:
        paragraph.unknown.append("the model, as there is no match")
        return
    paragraph.add(f"{_counted('The model', facts.tally.models)}.")


def _seeds(facts: Facts, paragraph: Paragraph) -> None:
    """Which articles stand for the event."""
    if not facts.seeds:
        paragraph.unknown.append("the seed articles, as the control topic has none of the event")
    else:
        names = [f"{named(seed.id)} ({seed.version})" for seed in facts.seeds[:MOST_NAMED]]
        more = f" and {len(facts.seeds) - MOST_NAMED:,} more" * (len(facts.seeds) > MOST_NAMED)
        paragraph.add(
            f"The event is described by {_many(len(facts.seeds), 'seed article')}, by id and "
            f"version: {', '.join(names)}{more}."
        )
    if facts.tally.seed_sets:
        paragraph.add(f"{_counted('The set of seeds', facts.tally.seed_sets)}.")


def _profile(facts: Facts, paragraph: Paragraph) -> None:
    """What was learned from posts, if posts were compared with that."""
    profile, tally = facts.profile, facts.tally
    versions = {version: n for (name, version), n in tally.seeds.items() if _is_profile(name)}
    if not versions:
        paragraph.add("Posts were compared with each article." * bool(tally.posts))
        return
    paragraph.add(
        f"{sum(versions.values()):,} of {_many(tally.posts, 'post')} were compared with a profile "
        f"of the event ({_names(versions, 'post')})."
    )
    if profile is None or profile.version not in versions:
        paragraph.unknown.append("how the profile was made, as the topic has another one by now")
        return
    made = profile.made
    parts = [
        f"method: {named(made['method'])}" if isinstance(made.get("method"), str) else "",
        f"β {made['beta']:g}" if _is_number(made.get("beta")) else "",
        f"γ {made['gamma']:g}" if _is_number(made.get("gamma")) else "",
        f"learned from {_many(len(made['posts']), 'post')}" if _is_list(made.get("posts")) else "",
        f"and {_many(made['labels'], 'label')}" if _is_number(made.get("labels")) else "",
        f"made at {named(made['at'])}" if isinstance(made.get("at"), str) else "",
    ]
    paragraph.add(
        f"Version {profile.version} stands for {_many(len(profile.seeds), 'seed')}: "
        f"{', '.join(filter(None, parts))}."
    )


def _threshold(facts: Facts, paragraph: Paragraph) -> None:
    """From which score on a post matched, and how that score was found."""
    cuts = sorted(facts.tally.thresholds)
    if not cuts:
        paragraph.unknown.append("the threshold, as there is no match")
        return
    both = f"{cuts[0]:.4f} to {cuts[-1]:.4f}, by what it was compared with"
    reach = f"{cuts[0]:.4f}" if len(cuts) == 1 else both
    paragraph.add(f"The least score of a match is {reach}.")
    if facts.selection.threshold is not None:
        paragraph.add(
            f"Of these, posts with a score of at least {facts.selection.threshold:g} are counted "
            "here."
        )
    own = [each for each in (*facts.seeds, facts.profile) if each and each.threshold is not None]
    if own:
        names = ", ".join(named(each.id) for each in own[:MOST_NAMED])
        paragraph.add(f"By the control topic as it is now, a person set it for {names}.")
    _automatic(facts, paragraph)


def _automatic(facts: Facts, paragraph: Paragraph) -> None:
    """The background rate, where the sets of seeds show that the workers had the desk's."""
    matching = facts.matching
    if facts.seed_set is None or facts.seed_set not in facts.tally.seed_sets:
        paragraph.unknown.append(
            "the background rate of automatic thresholds, as the matches' sets of seeds are not "
            "the one that this desk's configuration makes"
        )
    elif matching.threshold is not None:
        paragraph.add(f"For all without one of their own it is {matching.threshold:g}.")
    else:
        where = "a background of one's own" if matching.background else "the model's background"
        paragraph.add(
            "For all without one of their own it is automatic: the score that a share of "
            f"{matching.background_rate:g} of {where} reaches."
        )


def _window(facts: Facts, paragraph: Paragraph) -> None:
    """From when to when, and how many messages were read."""
    selection = facts.selection
    bounds = [("from", selection.since), ("until", selection.until)]
    bounds_text = " ".join(f"{word} {rfc3339(at)}" for word, at in bounds if at is not None)
    paragraph.add(f"The window is {bounds_text or 'all that the topics hold'} (UTC, Kafka's time).")
    if facts.messages is None:
        paragraph.unknown.append(
            "how many messages were read, as the topic of posts no longer holds all of them"
        )
    else:
        paragraph.add(f"In it the workers read {_many(facts.messages, 'message')}.")


def _matches(facts: Facts, paragraph: Paragraph) -> None:
    """How many posts matched, and how many stories they tell."""
    tally = facts.tally
    span = span_of(tally)
    if span is None:
        paragraph.add("No post matched.")
        return
    paragraph.add(
        f"{_many(tally.posts, 'post')} matched ({_many(tally.matches, 'record')}), which came from "
        f"{span[0]} to {span[1]}."
    )
    if tally.ungrouped:
        paragraph.unknown.append(
            f"how many distinct stories they tell, as {_many(tally.ungrouped, 'post')} name none"
        )
        return
    paragraph.add(
        f"They tell {_many(tally.stories, 'distinct story', 'distinct stories')}, near-copies "
        "within a partition and a bounded time counted once."
    )


def _labels(facts: Facts, paragraph: Paragraph) -> None:
    """What people said of the event's posts, and how far they agree."""
    if not facts.labels:
        paragraph.add("No post was labelled.")
        return
    judges = len({label.by for label in facts.labels})
    posts = len({label.post_id for label in facts.labels})
    paragraph.add(
        f"{_many(judges, 'judge')} gave {_many(len(facts.labels), 'label')} on "
        f"{_many(posts, 'post')}: {'; '.join(_by_draw(facts.labels))}."
    )
    pairs = agreements(facts.labels)
    for pair in pairs[:MOST_NAMED]:
        kappa = "undefined, as both gave one verdict" if pair.kappa is None else f"{pair.kappa:.3f}"
        paragraph.add(
            f"{'The two judges' if judges == 2 else 'Two judges'} agree on {pair.same:.1%} of the "
            f"{_many(pair.posts, 'post')} that both labelled (Cohen's κ {kappa})."
        )
    if not pairs:
        paragraph.unknown.append("how far judges agree, as no two labelled the same post")


def _promise(facts: Facts, paragraph: Paragraph) -> None:
    """What the labels were shown to promise, and what they do not say."""
    promise = (facts.profile.promise if facts.profile else None) or {}
    numbers = ("precision", "confidence", "labels", "on", "matches")
    if facts.profile and all(_is_number(promise.get(name)) for name in numbers):
        at = named(promise["at"]) if isinstance(promise.get("at"), str) else "an unknown time"
        paragraph.add(
            f"For version {facts.profile.version} of the profile a precision of at least "
            f"{promise['precision']:g} was shown at a confidence of {promise['confidence']:g} "
            f"({at}): {promise['on']:,} of {promise['labels']:,} labels of matches drawn at random "
            f"were on the event, of {promise['matches']:,} matches."
        )
    else:
        paragraph.unknown.append("the precision, as none is promised")
    paragraph.unknown.append("the recall, as nothing in the topics bounds what was missed")


def _by_draw(labels: Iterable[Label]) -> list[str]:
    """How many labels of each draw say what."""
    counts = Counter[tuple[str, str]]((label.drawn, label.label) for label in labels)
    return [
        f"{sum(n for (drawn, _), n in counts.items() if drawn == name):,} {how} ("
        + ", ".join(f"{counts[name, word]:,} {word}" for word in ("on", "off", "unsure"))
        + ")"
        for name, how in DRAWN.items()
        if any(drawn == name for drawn, _ in counts)
    ]


def _counted(what: str, counts: Mapping[str, int]) -> str:
    """One name, or several with how many posts each has."""
    if len(counts) == 1:
        return f"{what} is {named(next(iter(counts)))}"
    return f"{what} changed: {_names(counts, 'post')}"


def _names(counts: Mapping[str, int], of: str) -> str:
    most = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    parts = [f"{named(name)} for {_many(count, of)}" for name, count in most[:MOST_NAMED]]
    return ", ".join(parts) + (f" and {len(most) - MOST_NAMED:,} more" * (len(most) > MOST_NAMED))


def _many(count: int, one: str, more: str = "") -> str:
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def _is_profile(name: str) -> bool:
    return name.startswith("profile|")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e15


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _escaped(text: str) -> str:
    """A text as Markdown shows it, with nothing of it taken for a mark."""
    marks = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_{}[]<>#|"})
    return text.translate(marks)
