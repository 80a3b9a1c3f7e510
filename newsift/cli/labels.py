"""`newsift labels`: judge posts at a terminal; write notes; list, export and import labels."""

import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import click
from msgspec import to_builtins

from encoder.errors import InputError
from newsift.cli.group import CommandGroup
from newsift.cli.options import JSON, PATH, YES, kafka_options, option_group, since_option
from newsift.cli.output import highlight_text, page_width, print_json, table, wrap
from newsift.cli.terminal import at_terminal, confirm_publish, single_keys, use_colour
from newsift.files.labels import label_writer, read_labels
from newsift.files.read import DASH
from newsift.files.write import check_targets
from newsift.files.writers import TEXT_ENDINGS, check_ending
from newsift.operations.actor import current_user
from newsift.operations.counts import EventPosts, draw_count
from newsift.operations.deletions import has_content, read_deletions
from newsift.operations.events import unknown_event
from newsift.operations.labels import (
    NO_CANDIDATES,
    AnswerLog,
    FrozenQueue,
    QueueKind,
    QueueRequest,
    draw_start,
    freeze_queue,
    label_headers,
    label_topic,
    stored_labels,
    without_deleted,
)
from newsift.operations.matches import read_matches
from newsift.operations.messages import notify
from newsift.operations.seed_topic import SeedTopic
from newsift.operations.times import now_text
from newsift.statistics.count_draw import DEFAULT_COUNT_LABELS, MIN_COUNT_LABELS
from newsift.statistics.estimates import agreements, count_labels
from newsift.statistics.labels import (
    Label,
    Note,
    Verdict,
    check_names,
    parse_label,
    parse_note,
)
from newsift.statistics.queues import Question
from worker.config import Config
from worker.kafka.reading import connected
from worker.kafka.sending import Outbox, sending
from worker.posts.compare import as_text
from worker.text import one_line, plural

VERDICTS: dict[str, Verdict] = {"y": "on", "n": "off", "u": "unsure"}
UNDO_KEYS, QUIT_KEYS, ESCAPE = ("z", "\x7f", "\x08"), ("q", "\x04"), "\x1b"
MAX_POST_LINES = 40  # the lines of a longer post are joined
KEY_HELP = "[y] on  [n] off  [u] unsure  [z] undo  [q] quit"
EVENT = click.option("--event", metavar="NAME", help="Only of this event.")


@click.group(cls=CommandGroup)
def labels() -> None:
    """Judge posts; list, export and import labels; write down what counts as on."""


@dataclass(frozen=True, slots=True)
class DrawOptions:
    """What is asked about."""

    kind: QueueKind
    count: int
    redraw: bool


@labels.command()
@click.argument("event")
@option_group(
    "draw",
    DrawOptions,
    click.option("--queue", "kind", type=click.Choice(["certify", "learn", "count"]),
                 default="certify", show_default=True,
                 help="Matches drawn at random, posts around the threshold, or a draw for "
                 "`newsift estimate`."),
    click.option("--labels", "count", type=click.IntRange(MIN_COUNT_LABELS),
                 default=DEFAULT_COUNT_LABELS, show_default=True,
                 help="How many posts a new draw for a count has."),
    click.option("--redraw", is_flag=True,
                 help="Draw from the newest matches, which is another test for a promise."),
)  # fmt: skip
@click.option("--by", metavar="NAME", help="The name of the judge; yours if not given.")
@since_option("Matches from this time on: 2h, or in RFC 3339; else of 24 hours.", default="24h")
@kafka_options
def ask(event: str, draw: DrawOptions, by: str | None, start: int, config: Config) -> None:
    """Show posts one at a time and ask whether they are on EVENT; each answer is published at once.

    There are three queues, and no answer serves two of them. certify shows matches drawn at random,
    one of each story: the answers prove how many matches are on the event (`newsift events
    promise`). learn shows matches and posts just below the threshold: the event learns from the
    answers (`newsift events learn`). count shows a sample of matches and near misses: `newsift
    estimate` counts by the answers. Its posts and their number are fixed with the first answer, and
    the same whoever asks. Keys: y on, n off, u unsure, z undo, q quit.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        instead = "run it in one, or judge with `newsift desk`"
        if draw.kind == "learn":
            instead = (
                "label in a file (`newsift matches --csv`, with a column 'label') and publish it "
                "with `newsift labels import FILE`"
            )
        raise InputError(f"labels ask: needs a terminal; {instead}")
    name = by or current_user()
    check_names(**{"EVENT": event, "--by": name})
    with label_topic(config) as topic:
        state = topic.state()
        labels, note = state.event_labels(event), state.note(event)
        control = SeedTopic(topic.cluster, config).state()
        profile = control.profiles.get(event)
        request = QueueRequest(
            event, name, draw.kind, start, token_hex(8), draw.count, redraw=draw.redraw
        )
        if draw.kind == "count":
            frozen = draw_count(EventPosts(topic.cluster, config, event), request, labels)
        else:
            since = draw_start(labels, profile.version) if profile else None
            start = min(start, since or start)
            rows = read_matches(topic.cluster, config, start, event).draw_rows(event)
            frozen = freeze_queue(topic.cluster, config, request, rows, labels, profile)
    if frozen.queue.next({}) is None:
        if not (labels or profile or event in {seed.event for seed in control.seeds.values()}):
            raise unknown_event(event)
        notify(
            f"event {event!r}: {NO_CANDIDATES[draw.kind]} to ask about; --since an earlier time, "
            "`newsift backfill`, or wait for more"
        )
        return
    if draw.kind == "certify" and profile is None:
        notify(
            f"event {event!r} has no profile, and only matches by one can prove a promise: make it "
            f"first, `newsift events learn {shlex.quote(event)}`"
        )
    if note is not None:
        _print_note(note)
    with sending(config) as outbox:
        answers = Answers(labels, outbox, config.topics.labels)
        Session(frozen, AnswerLog(event, name, frozen, answers)).run()


class Answers:
    """The labels of an event that this command has read and published."""

    def __init__(self, labels: Iterable[Label], outbox: Outbox, topic: str) -> None:
        self._labels = {label.key: label for label in labels}
        self._outbox, self._topic = outbox, topic

    def event_labels(self, _event: str) -> Sequence[Label]:
        return [*self._labels.values()]

    def publish(self, key: bytes, value: bytes | None) -> None:
        self._outbox.send(self._topic, value, key, label_headers(key))
        self._outbox.settle()
        self._labels.pop(key, None)
        if value is not None:
            self._labels[key] = parse_label(value)


class Session:
    def __init__(self, frozen: FrozenQueue, answers: AnswerLog) -> None:
        self._frozen, self._queue, self._answers = frozen, frozen.queue, answers
        self._pressed_keys = ""

    def run(self) -> None:
        with single_keys() as keys:
            while (question := self._queue.next(self._answers.verdicts())) is not None:
                self._show(question)
                while (continues := self._act(question, self._key(keys))) is None:
                    pass
                if not continues:
                    break
        progress = "; ".join(self._queue.lines(self._answers.verdicts()))
        click.echo(f"{plural(len(self._answers.steps), 'label')} given; {progress}")

    def _act(self, question: Question, key: str) -> bool | None:
        """Whether to continue after a key; None for a key without a meaning."""
        if key in VERDICTS:
            self._answers.answer(question, VERDICTS[key])
            click.echo(f"  {VERDICTS[key]}")
            return True
        if key in UNDO_KEYS and self._answers.steps:
            self._answers.undo()
            click.echo("  undone")
            return True
        return False if key in QUIT_KEYS else None

    def _key(self, keys: Callable[[], str]) -> str:
        """The next key. Fast keys are read together; an arrow is several keys, and is ignored."""
        if not self._pressed_keys:
            self._pressed_keys = keys().lower() or QUIT_KEYS[0]
        if self._pressed_keys.startswith(ESCAPE):
            self._pressed_keys = ""
        key, self._pressed_keys = self._pressed_keys[:1], self._pressed_keys[1:]
        return key

    def _show(self, question: Question) -> None:
        post, row = question.candidate.post, self._frozen.matches.get(question.candidate.post_id)
        text = as_text(post).text
        colour, why = use_colour(), row.best.why if row else ()
        score = f"{question.candidate.score:.3f}"
        score += f" (threshold {row.threshold:.3f})" if row else " (below the threshold)"
        head = [score, post.platform, post.author, post.created_at, post.url]
        click.echo(f"\n{'  '.join(one_line(part) for part in head if part)}")
        paragraphs = [line for line in map(one_line, text.splitlines()) if line]
        if len(paragraphs) > MAX_POST_LINES:
            paragraphs = [one_line(text)]
        if not has_content(post):
            click.echo("  this post was deleted, so nobody can be sure: press u")
        for line in (line for part in paragraphs for line in wrap(part, page_width() - 2)):
            click.echo(f"  {highlight_text(line, why, colour)}", color=colour)
        click.echo(f"{'; '.join(self._queue.lines(self._answers.verdicts()))}   {KEY_HELP}")


def _print_note(note: Note) -> None:
    """What counts as on, line by line."""
    for line in filter(None, map(one_line, note.note.splitlines())):
        click.echo("\n".join(wrap(line, page_width())))
    click.echo(f"({one_line(note.by)}, {one_line(note.at)})")


@labels.command("note")
@click.argument("event")
@click.argument("text", required=False)
@JSON
@kafka_options
def write_note(event: str, text: str | None, as_json: bool, config: Config) -> None:
    """Show what counts as on EVENT; with TEXT, write it down for everybody who judges it.

    `labels ask` and the desk show it beside the posts. An empty TEXT deletes it.
    """
    check_names(EVENT=event)
    if text is not None:
        note = Note(text.strip(), event, current_user(), now_text())
        value = parse_note(note.value, config.limits).value if note.note else None
        with label_topic(config) as topic:
            topic.publish({note.key: value}, topic.state())
    with connected(config) as cluster:
        last = stored_labels(cluster, config).note(event)
    if as_json:
        print_json([to_builtins(last)] if last else [])
    elif last:
        _print_note(last)
    else:
        notify(f"event {event!r} has no note")


@labels.command("list")
@EVENT
@JSON
@kafka_options
def list_labels(event: str | None, as_json: bool, config: Config) -> None:
    """Count the labels of each event and person, and show how well two people agree (Cohen's κ).

    κ is 1 if they always agree, and 0 if they agree as often as by chance.
    """
    by_event = _by_event(config, event)
    counts = [{"event": n} | row for n, part in by_event.items() for row in count_labels(part)]
    pairs = [
        {"event": n} | asdict(pair) for n, part in by_event.items() for pair in agreements(part)
    ]
    if as_json:
        print_json([*counts, *pairs])
        return
    if not counts:
        notify("no labels yet; run `newsift labels ask EVENT`")
        return
    _print_table(counts)
    if pairs:
        click.echo()
        for pair in pairs:
            for name in ("agreement", "kappa"):
                pair[name] = None if pair[name] is None else f"{pair[name]:.2f}"
        _print_table(pairs)


def _print_table(rows: list[dict[str, Any]]) -> None:
    table(tuple(rows[0]), [tuple(row.values()) for row in rows])


@labels.command("export")
@click.argument("file", default=DASH, metavar="[FILE]", type=PATH)
@EVENT
@kafka_options
def export_labels(file: Path, event: str | None, config: Config) -> None:
    """Write all labels to FILE: .csv, .tsv, .json, else JSON lines; - is standard output.

    Labels of deleted posts have neither text, author nor link.
    """
    check_targets({"FILE": file}, [])
    check_ending("FILE", file, TEXT_ENDINGS)
    with connected(config) as cluster:
        deleted = read_deletions(cluster, config)
    labels = [
        without_deleted(label, deleted)
        for part in _by_event(config, event).values()
        for label in part
    ]
    with label_writer(file) as add:
        for label in labels:
            add(label)
    notify(f"{plural(len(labels), 'label')} exported")


@labels.command("import")
@click.argument("file", metavar="FILE", type=PATH)
@click.option("--by", metavar="NAME", help="The judge of labels that name none; you if not given.")
@YES
@kafka_options
def import_labels(file: Path, by: str | None, yes: bool, config: Config) -> None:
    """Publish the labels of FILE, CSV or JSON lines, and read them back.

    Nothing is published unless every line can be read. Imported labels can train a profile, but
    cannot prove a promise, as only a random draw can; a drawn label that is there already stays.
    """
    labels = read_labels(file, by or current_user(), now_text(), config.limits)
    events = Counter(label.event for label in labels.values())
    of = f"{len(events):,} events" if len(events) > 1 else f"event {next(iter(events))!r}"
    counts = f"{plural(events.total(), 'label')} of {of}"
    if not confirm_publish(yes or file == DASH or not at_terminal(), f"Publish {counts}?"):
        return
    with label_topic(config) as topic:
        there = [label for group in topic.state().by_event.values() for label in group]
        drawn = {label.key: label.label for label in there if label.drawn != "given"}
        new = {key: label for key, label in labels.items() if drawn.get(key) != label.label}
        topic.publish({key: label.value for key, label in new.items()})
    kept = len(labels) - len(new)
    notify(f"{counts} imported" + (f"; {kept:,} were there, and stay as drawn" if kept else ""))


def _by_event(config: Config, event: str | None) -> Mapping[str, tuple[Label, ...]]:
    with connected(config) as cluster:
        by_event = stored_labels(cluster, config).by_event
    if event is None:
        return by_event
    return {event: by_event[event]} if event in by_event else {}
