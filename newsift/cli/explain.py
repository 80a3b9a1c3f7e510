"""`newsift explain`: the weights of a post's words, or what they add to a score."""

import json
import os
from pathlib import Path

import click

from encoder import InputError
from newsift.cli.options import CONFIG, ONE_JSON, configuration, model_options, with_model
from newsift.cli.output import highlight_words
from newsift.cli.terminal import use_colour
from newsift.files.articles import read_article
from newsift.files.read import DASH, read_text
from newsift.operations.model_context import ModelContext
from newsift.operations.seed_drafts import SeedDraft
from worker.assembly import load_encoder
from worker.config import ModelConfig
from worker.seeds.set import SeedSet
from worker.seeds.state import parse_control_state


@click.command()
@click.argument("text")
@click.option("--article", metavar="FILE|TEXT",
              help="Explain the score with this article; - reads standard input.")  # fmt: skip
@click.option("--title", help="The article's title; a file's first line '# …' is its title.")
@ONE_JSON
@model_options
@CONFIG
def explain(
    text: str, article: str | None, title: str | None, as_json: bool, model: ModelConfig,
    config_file: Path | None,
) -> None:  # fmt: skip
    """Show the words of TEXT, a post, highlighted by their weights; - reads standard input.

    With --article they are highlighted by what they add to the score or subtract from it. Whether
    that is a match is decided by the configuration, as `newsift filter` does with this one article.
    """
    if title is not None and article is None:
        raise click.UsageError("--title needs --article")
    if text == article == "-":
        raise click.UsageError("TEXT and --article: standard input holds one of them; name a file")
    text = read_text(DASH) if text == "-" else text
    if not text.strip():
        raise InputError("TEXT: is empty; give the text of a post")
    article_text = None if article is None else _article(article, title)
    config = with_model(configuration(None, config_file), model)
    verdict, scores = None, dict[str, object]()
    if article_text is None:
        enc = load_encoder(config)
        pairs = enc.explain(text)
    else:
        context = ModelContext(config)
        enc, seeds = context.enc, _seed_set(context, article_text)
        pairs = enc.explain(text, seeds.embeddings, 0, context.automatic.skims_alone)
        score = float(context.embed([text]).similarity(seeds.embeddings)[0, 0])
        skimmed = float(enc.skim([text]).similarity(seeds.embeddings)[0, 0])
        threshold, skim_threshold = seeds.both_thresholds[0].tolist()
        match = score >= threshold and skimmed >= skim_threshold
        scores = {"score": score, "threshold": threshold, "match": match}
        automatic = "automatic " if config.matching.threshold is None else ""
        verdict = f"score {score:.4f}, {automatic}threshold {threshold:.4f}: "
        if context.automatic.reads:
            scores |= {"skim_score": skimmed, "skim_threshold": skim_threshold}
            verdict += f"skimmed {skimmed:.4f}, skim threshold {skim_threshold:.4f}: "
        verdict += "a match" if match else "no match"
    if as_json:
        result = {"text": text, "model": enc.digest, **scores, "words": pairs}
        click.echo(json.dumps(result, ensure_ascii=True))
        return
    click.echo(highlight_words(pairs, use_colour()))
    if verdict:
        click.echo(verdict)


def _seed_set(context: ModelContext, article: tuple[str, str]) -> SeedSet:
    """Raises InputError for an article that the model refuses."""
    title, text = article
    draft = SeedDraft("article", {"title": title, "text": text}, "--article")
    state = parse_control_state({draft.key: draft.value}, context.config.limits)
    seeds = context.seed_set(state)
    for refusal in seeds.refused:
        raise InputError(f"{draft.source}: {refusal.reason}")
    return seeds


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
