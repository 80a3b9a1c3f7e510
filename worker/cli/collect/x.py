"""`newsift collect x`: the filtered stream of X, and the rules that say what it holds."""

import asyncio
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from worker.cli.collect.running import collect_options, token_option
from worker.cli.terminal import say
from worker.config import Config
from worker.sources.http import losing, needed_token, session
from worker.sources.x.source import STALL_S, STREAM, XStream
from worker.visible import escaped

TOKEN = "NEWSIFT_X_TOKEN"


def or_rules(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command show the rules, and what a file would change in them, instead."""

    @click.option("--list-rules", is_flag=True, help="Print the rules that X has, and end.")
    @wraps(command)
    def either(*args: Any, list_rules: bool, **given: Any) -> None:
        if list_rules or (given["dry_run"] and given["rules"]):
            source = XStream(given["url"], needed_token(TOKEN, given["token_file"]), given["rules"])
            asyncio.run(show_rules(source, list_rules))
            return
        command(*args, **given)

    return either


@click.command()
@click.option(
    "--url", default=STREAM, show_default=True, metavar="URL",
    help="The filtered stream; its rules stand below it, at /rules.",
)  # fmt: skip
@click.option(
    "--rules", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
    help="Keep the rules of X in step with this file: a rule a line, its tag behind a tab. With "
    "--dry-run it shows what it would change, and ends.",
)  # fmt: skip
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N",
    help="End after N posts, each of which X charges: $0.005.",
)  # fmt: skip
@token_option(TOKEN)
@or_rules
@collect_options
def x(
    url: str, rules: Path | None, limit: int | None, token_file: Path | None, config: Config
) -> XStream:
    """Bring the posts of X that match your rules to the posts topic.

    It takes the bearer token of an app with access to the filtered stream. X charges $0.005 for
    each post that it sends, sends 250 a second at most, and nothing twice: what it published while
    nobody listened is counted as a gap.

    A file of rules says all there are to be: X is given those that it lacks, and loses those that
    are not there, now and whenever the file changes. It takes 1,000 rules of 1,024 characters.
    """
    token = needed_token(TOKEN, token_file)
    return XStream(url, token, rules, limit, config.stream.stall_s)


async def show_rules(source: XStream, all_of_them: bool) -> None:
    """Print the rules that X has, or what would become of them."""
    async with session(STALL_S) as client:
        with losing(source.place):
            if all_of_them:
                for rule in await source.rules.listed(client):
                    click.echo(escaped_rule(rule.line()))
                return
            there, add, remove = await source.rules.planned(client)
    for sign, rules in (("+", add), ("-", remove)):
        for rule in rules:
            click.echo(f"{sign} {escaped_rule(rule.line())}")
    kept = len(there) - len(remove)
    say(f"{len(add):,} rules to add, {len(remove):,} to remove, {kept:,} stay; nothing was changed")


def escaped_rule(line: str) -> str:
    """A rule's line as it can be seen; the tab before its tag stays."""
    return "\t".join(map(escaped, line.split("\t", 1)))
