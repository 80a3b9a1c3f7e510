"""`newsift explain`: which words carry a post, or its score with an article."""

import json
import os
from pathlib import Path

import click

import encoder
from encoder import InputError
from worker.cli.options import ONE_JSON, model_options
from worker.cli.terminal import colour_wanted
from worker.cli.view.lit import lit
from worker.files.articles.read import read_article
from worker.files.read import DASH, read_text


@click.command()
@click.argument("text")
@click.option("--article", metavar="FILE|TEXT", help="Explain the score with this article.")
@click.option("--title", help="The article's title; a file's first line '# …' is its title.")
@ONE_JSON
@model_options
def explain(
    text: str, article: str | None, title: str | None, as_json: bool,
    model: str, device: str, threads: int | None,
) -> None:  # fmt: skip
    """Show the words of TEXT, a post, lit by the attention they get; - reads standard input.

    With an article they are lit by what they add to the score, or take from it.
    """
    if title is not None and article is None:
        raise click.UsageError("--title needs --article")
    text = read_text(DASH) if text == "-" else text
    given = None if article is None else _article(article, title)
    enc = encoder.load(model, device=device, threads=threads)
    found: dict[str, object] = {"text": text, "model": enc.digest}
    verdict = None
    if given is None:
        pairs = enc.explain(text)
    else:
        embedded = enc.articles([given])
        pairs = enc.explain(text, embedded, 0)
        score = float(enc.posts([text]).similarity(embedded)[0, 0])
        threshold = float(enc.thresholds(embedded)[0])
        found |= {"score": score, "threshold": threshold, "match": score >= threshold}
        said = "a match" if score >= threshold else "no match"
        verdict = f"score {score:.4f}, automatic threshold {threshold:.4f}: {said}"
    if as_json:
        click.echo(json.dumps(found | {"words": pairs}, ensure_ascii=True))
        return
    click.echo(lit(pairs, colour_wanted()))
    if verdict:
        click.echo(verdict)


def _article(given: str, title: str | None) -> tuple[str, str]:
    """The article behind --article: a file if there is one of that name, else the text itself."""
    if os.path.isfile(given):  # noqa: PTH113 - pathlib raises on a text too long for a name
        found = read_article(Path(given))
        return title if title is not None else found.title, found.text
    if " " not in given.strip() and ("/" in given or Path(given).suffix):
        raise InputError(f"--article {given}: there is no such file; give a file or a text")
    return title or "", given
