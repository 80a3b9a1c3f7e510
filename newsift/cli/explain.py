"""`newsift explain`: the weights of a post's words, or what they add to a score."""

import json
import os
from pathlib import Path

import click

import encoder
from encoder import InputError
from newsift.cli.options import ONE_JSON, model_options
from newsift.cli.output import highlight_words
from newsift.cli.terminal import use_colour
from newsift.files.articles import read_article
from newsift.files.read import DASH, read_text
from worker.config import ModelConfig


@click.command()
@click.argument("text")
@click.option("--article", metavar="FILE|TEXT",
              help="Explain the score with this article; - reads standard input.")  # fmt: skip
@click.option("--title", help="The article's title; a file's first line '# …' is its title.")
@ONE_JSON
@model_options
def explain(
    text: str, article: str | None, title: str | None, as_json: bool, model: ModelConfig
) -> None:
    """Show the words of TEXT, a post, highlighted by their weights; - reads standard input.

    With --article they are highlighted by what they add to the score or subtract from it.
    """
    if title is not None and article is None:
        raise click.UsageError("--title needs --article")
    if text == article == "-":
        raise click.UsageError("TEXT and --article: standard input holds one of them; name a file")
    text = read_text(DASH) if text == "-" else text
    if not text.strip():
        raise InputError("TEXT: is empty; give the text of a post")
    article_text = None if article is None else _article(article, title)
    enc = encoder.load(model.name, device=model.device, threads=model.threads)
    result: dict[str, object] = {"text": text, "model": enc.digest}
    verdict = None
    if article_text is None:
        pairs = enc.explain(text)
    else:
        embeddings = enc.articles([article_text])
        pairs = enc.explain(text, embeddings, 0)
        score = float(enc.posts([text]).similarity(embeddings)[0, 0])
        skimmed = float(enc.skim([text]).similarity(embeddings)[0, 0])
        threshold, skim_threshold = (float(found[0]) for found in enc.match_thresholds(embeddings))
        match = score >= threshold and skimmed >= skim_threshold
        result |= {"score": score, "threshold": threshold, "match": match}
        verdict = f"score {score:.4f}, automatic threshold {threshold:.4f}: "
        if enc.has_star:
            result |= {"skim_score": skimmed, "skim_threshold": skim_threshold}
            verdict += f"skimmed {skimmed:.4f}, skim threshold {skim_threshold:.4f}: "
        verdict += "a match" if match else "no match"
    if as_json:
        click.echo(json.dumps(result | {"words": pairs}, ensure_ascii=True))
        return
    click.echo(highlight_words(pairs, use_colour()))
    if verdict:
        click.echo(verdict)


def _article(text: str, title: str | None) -> tuple[str, str]:
    """Title and text. `text` may be the name of a file, or - for standard input."""
    if os.path.isdir(text):  # noqa: PTH112 - pathlib raises on a text too long for a name
        raise InputError(f"--article {text}: is a folder; name a file in it, or give a text")
    if text == "-" or os.path.isfile(text):  # noqa: PTH113 - likewise
        article = read_article(Path(text))
        return title if title is not None else article.title, article.text
    if " " not in text.strip() and ("/" in text or Path(text).suffix):
        raise InputError(f"--article {text}: there is no such file; give a file or a text")
    return title or "", text
