"""What a background is worth: its posts, how wide its thresholds are, and what they become."""

import json
from pathlib import Path
from typing import Any

import click

from encoder.embeddings import Embeddings
from encoder.embeddings_file import opened
from encoder.encoder import Encoder
from worker.background.file import LEAST, digest_of, refuse_other, spread_of, tail_of
from worker.cli.view.table import print_fields, print_json, table
from worker.seeds.background import OwnBackground
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.set import SeedBook

RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01)
NOTED = ("source", "first", "last", "made", "authors")
COUNTED = ("platforms", "languages")

Row = dict[str, Any]


def of_file(file: Path, rate: float) -> Row:
    """What is told of a background in a file."""
    posts, mark = Embeddings.load(file), digest_of(file)
    note, _ = opened(file)
    told = {"file": str(file), "sha256": mark} | _size(posts, rate)
    told |= {name: note[name] for name in NOTED if name in note}
    return told | {name: json.loads(note[name]) for name in COUNTED if name in note}


def of_the_model(enc: Encoder, rate: float) -> Row:
    """What is told of the everyday posts that ship with a model."""
    return {"file": None, "source": "the model's own"} | _size(enc.background, rate)


def compared(book: SeedBook, enc: Encoder, rate: float, file: Path | None) -> list[Row]:
    """The thresholds of the live seeds, with the background of a file and with the model's."""
    own = None
    if file is not None:
        own = OwnBackground(Embeddings.load(file), digest_of(file))
        refuse_other(file, own.posts, enc)
    found = [SeedEmbedder(enc, rate, None, each).make(book) for each in (own, None)]
    mine, shipped = (
        dict(zip([seed.id for seed in each.seeds], each.thresholds.tolist(), strict=True))
        for each in found
    )
    return [
        {"seed": name, "threshold": mine.get(name), "shipped": shipped.get(name)}
        for name in sorted(mine | shipped)
    ]


def _size(posts: Embeddings, rate: float) -> Row:
    told = [
        {"rate": each, "tail": tail, "spread": spread_of(tail)}
        for each in sorted({*RATES, rate}) if (tail := tail_of(len(posts), each)) >= LEAST
    ]  # fmt: skip
    return {"posts": len(posts), "model": posts.digest, "rates": told}


def print_background(told: Row, as_json: bool) -> None:
    """Print what is told of a background: for people its tables last."""
    if as_json:
        print_json([told])
        return
    plain = {name: value for name, value in told.items() if not isinstance(value, list)}
    plain["posts"] = f"{told['posts']:,}"
    for name in COUNTED:
        if plain.get(name):
            plain[name] = ", ".join(f"{key} {count:,}" for key, count in plain[name].items())
    print_fields({name: value for name, value in plain.items() if value})
    click.echo()
    rows = [[f"{r['rate']:g}", r["tail"], f"± {r['spread']:.0%}"] for r in told["rates"]]
    table(["rate", "posts above a threshold", "so the rate holds to"], rows)
    if seeds := told.get("seeds"):
        click.echo()
        rows = [[_number(s["threshold"]), _number(s["shipped"]), s["seed"]] for s in seeds]
        table(["threshold", "the model's", "seed"], rows)


def _number(cut: float | None) -> str | None:
    return None if cut is None else f"{cut:.3f}"
