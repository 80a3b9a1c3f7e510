"""`newsift labels ask`: one post at a time at a terminal, each answer published at once."""

import sys
from secrets import token_hex

import click

from encoder.errors import InputError
from worker.actions.labels.answers import Answers
from worker.actions.labels.asking import NOTHING, Kind, frozen
from worker.actions.labels.topic import HEADERS, writable
from worker.actions.times import since
from worker.actions.who import myself
from worker.cli.labels.session import Session
from worker.cli.options import kafka_options, since_option
from worker.cli.terminal import say
from worker.config import Config
from worker.kafka.sending import sending
from worker.seeds.values import EVENT_BYTES

DAY = "24h"


@click.command()
@click.argument("event")
@click.option(
    "--queue", "kind", type=click.Choice(["certify", "learn"]), default="certify",
    show_default=True, help="Matches drawn at random, or posts around the threshold.",
)  # fmt: skip
@click.option("--by", metavar="NAME", help="Who answers; else you.")
@since_option("Matches from this time on: 2h, or in RFC 3339; else of 24 hours.")
@kafka_options
def ask(event: str, kind: Kind, by: str | None, start: int | None, config: Config) -> None:
    """Ask whether posts are on EVENT, one at a time; each answer is published at once.

    certify draws matches at random, one of those that say the same, so that the answers can show
    a threshold's precision. learn asks about matches and near misses next to the threshold, whose
    answers a profile can learn from. No answer serves both. Keys: y on, n off, u unsure, z undo,
    q quit.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError(
            "labels ask: needs a terminal; label in a file (`newsift matches --csv`, with a column "
            "'label') and bring it by `newsift labels import FILE`"
        )
    name = by or myself()
    for option, text in (("EVENT", event), ("--by", name)):
        if not 0 < len(text.encode("utf-8", "surrogatepass")) <= EVENT_BYTES:
            raise InputError(f"{option}: give a name of 1 to {EVENT_BYTES} bytes")
    with writable(config) as topic:
        known = topic.book().of(event)
        begin = since(DAY) if start is None else start
        asked = frozen(topic.cluster, config, event, kind, begin, known, token_hex(8))
    if asked.queue.next({}) is None:
        say(f"event {event!r}: {NOTHING[kind]} to ask about; --since an earlier time, "
            "`newsift backfill`, or wait for more")  # fmt: skip
    with sending(config) as outbox:

        def publish(key: bytes, value: bytes | None) -> None:
            outbox.send(config.topics.labels, value, key, HEADERS)
            outbox.settle()

        Session(asked, Answers(event, name, asked.found, known, publish)).run()
