"""How the commands show events and what they would learn: as tables, or whole."""

from collections.abc import Sequence
from typing import Any

import click

from worker.actions.events.lesson import Proposal
from worker.actions.events.rows import EventRow
from worker.cli.view.table import print_fields, table
from worker.seeds.profile import Profile
from worker.visible import cut, one_line

HEADER = ("event", "seeds", "profile", "threshold", "promise", "made", "by", "from")
SHOWN = 160  # characters of a post
WORDS = 10


def print_events(rows: Sequence[EventRow]) -> None:
    """One line an event; one that is refused or stale says why."""
    table(HEADER, [_cells(row) for row in rows])


def print_event(row: EventRow, profile: Profile | None) -> None:
    """All about one event: what it learned, and the versions before."""
    names = ("event", "seeds", "profile", "threshold", "promise")
    fields = dict(zip(names, _cells(row), strict=False)) | {"seeds": ", ".join(row["seeds"])}
    made = row["made"]
    for name in ("at", "by", "method", "beta", "gamma", "cohesion", "labels", "attempts"):
        fields[name] = made.get(name)
    posts = made.get("posts")
    fields["posts"] = len(posts) if isinstance(posts, list) else None
    fields["version"] = row["version"]
    fields |= {name: told_words(made.get(name)) for name in ("gained", "lost")}
    print_fields(fields)
    for number, record in enumerate(profile.before if profile else (), 1):
        earlier = record.get("made")
        said = earlier if isinstance(earlier, dict) else {}
        parts = [f"before {number}", said.get("at"), said.get("by"), said.get("method")]
        click.echo("  ".join(one_line(str(part)) for part in parts if part))


def print_proposal(proposal: Proposal) -> None:
    """Before and after, for people."""
    made, compared = proposal.profile.made, proposal.comparison
    click.echo(f"event         {one_line(proposal.event.name)}")
    click.echo(f"learned from  {one_line(_learned_from(made))}")
    for name in ("gained", "lost"):
        click.echo(f"{name:<13} {told_words(made[name]) or '-'}")
    before, after = (told_cuts(cuts) for cuts in proposal.cuts)
    click.echo(f"threshold     {before} → {after}")
    was, will = proposal.of_background
    click.echo(f"background    {was:.1f} → {will:.1f} of 1,000 posts pass")
    if compared.read:
        was, will = compared.passes
        click.echo(
            f"stream        {was:,} → {will:,} of {compared.read:,} posts pass{_hourly(proposal)}"
        )
    for sign, posts in (("+", compared.come), ("-", compared.go)):
        for each in posts:
            click.echo(f"  {sign} {each.score:.2f}  {cut(one_line(each.post.text), SHOWN)}")


def told_words(words: Any) -> str:
    """Words with how much they moved, as far as a record is what it should be."""
    if not isinstance(words, list):
        return ""
    return "  ".join(_told_word(pair) for pair in words[:WORDS])


def told_cuts(cuts: Sequence[float]) -> str:
    """Thresholds: one, or from the lowest to the highest."""
    ends = dict.fromkeys(f"{cut:.4f}" for cut in (*cuts[:1], *cuts[-1:]))
    return "–".join(ends) or "-"


def _told_word(pair: Any) -> str:
    if not (isinstance(pair, list | tuple) and len(pair) == 2):
        return ""
    word, move = pair
    shown = f" {move:+.3f}" if isinstance(move, float | int) else ""
    return f"{cut(one_line(str(word)), 40)}{shown}"


def _cells(row: EventRow) -> list[object]:
    made = row["made"]
    state = f"{row['profile']}: {row['why']}" if row["why"] else row["profile"]
    own = "" if row["automatic"] is False else " auto"
    cuts = told_cuts(row["thresholds"]) + (own if row["thresholds"] else "")
    promise = told_promise(row["promise"])
    if row["lapsed"]:
        promise = f"{promise}, lapsed: {row['lapsed']}"
    said = [made.get(name) for name in ("at", "by", "method")]
    return [row["event"], len(row["seeds"]), state, cuts, promise, *said]


def told_promise(promise: Any) -> str:
    """A promise in short, as far as it is one."""
    if not isinstance(promise, dict):
        return ""
    precision, confidence = promise.get("precision"), promise.get("confidence")
    if not (isinstance(precision, float) and isinstance(confidence, float)):
        return "unreadable"
    return f"{precision:g} at {100 * confidence:.0f} %"


def _learned_from(made: dict[str, Any]) -> str:
    said = f"{made['method']} (β {made['beta']:.2f}, γ {made['gamma']:g}"
    if made["posts"] or made["cohesion"]:
        said += f", cohesion {made['cohesion']:.2f}, {len(made['posts'])} posts"
    return said + (f", {made['labels']} labels)" if made["labels"] else ")")


def _hourly(proposal: Proposal) -> str:
    if proposal.hours < 1 / 60:
        return ""
    was, will = (passes / proposal.hours for passes in proposal.comparison.passes)
    return f", {was:,.1f} → {will:,.1f} an hour"
