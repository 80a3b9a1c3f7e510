"""`newsift embed`: texts in, embeddings out."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click

import encoder
from encoder import Embeddings, Encoder, InputError
from encoder.embeddings_file import saving
from encoder.model.weights import F32
from worker.cli.options import model_options
from worker.cli.terminal import ProgressLine, prompt_for_text, say
from worker.files.read import DASH, each_line
from worker.files.texts import FORMATS, GivenText, format_of, read_given
from worker.files.write import check_targets

BATCH_TEXTS = 4096
BATCH_BYTES = 8 * 2**20


def batches(file: Path, form: str, field: str, skip_bad: bool) -> Iterator[list[GivenText]]:
    """The good texts of an input in batches; bad ones are refused, or told and counted."""
    progress, bad = ProgressLine(), 0
    batch: list[GivenText] = []
    size = 0
    for number, line in each_line(file):
        form = format_of(line) if form == "auto" else form
        if form == "jsonl" and not line.strip():
            continue
        try:
            batch.append(read_given(line, form, field))
        except ValueError as error:
            if not skip_bad:
                said = f"line {number} {error} (--skip-bad passes over such rows)"
                raise InputError(said) from error
            bad += 1
            say(f"skipped: line {number} {error}")
            continue
        size += len(line)
        if len(batch) == BATCH_TEXTS or size >= BATCH_BYTES:
            yield batch
            progress.add(len(batch), "rows")
            batch, size = [], 0
    if batch:
        yield batch
        progress.add(len(batch), "rows")
    _conclude(progress, bad)


def _conclude(progress: ProgressLine, bad: int) -> None:
    good = progress.done
    if bad and not good:
        raise InputError("no row could be read; the reasons stand above")
    if bad:
        say(f"bad rows skipped: {bad}, rows read: {good}")
    if good and sys.stderr.isatty():
        say(f"{good:,} rows, {progress.rate()}")


@click.command()
@click.argument("file", default=DASH, type=click.Path(path_type=Path), metavar="[FILE]")
@click.option("--out", default=DASH, type=click.Path(path_type=Path),
              help="The safetensors file to write.")  # fmt: skip
@click.option("--articles", is_flag=True, help="The texts are articles, not posts.")
@click.option("--format", "form", default="auto", type=click.Choice(FORMATS), help="Of the input.")
@click.option("--field", default="text", metavar="KEY", help="The JSON key of the text.")
@click.option("--skip-bad", is_flag=True, help="Pass over rows that cannot be read.")
@model_options
def embed(
    file: Path, out: Path, articles: bool, form: str, field: str, skip_bad: bool,
    model: str, device: str, threads: int | None,
) -> None:  # fmt: skip
    """Turn the texts of FILE, or of standard input, into embeddings.

    The input is one text a line, or JSON lines with the keys text, and if there are any title and
    id; gzip is unpacked. The embeddings go to --out as safetensors, row by row as the input, or as
    JSON lines to standard output. Memory does not grow with the input; --out takes about 1.3 KB of
    disk for each row, and as much again until it is complete.
    """
    check_targets({"--out": out}, [file])
    if out != DASH and out.suffix != ".safetensors":
        raise InputError(f"--out {out}: must end in .safetensors; JSON lines go to standard output")
    if file == DASH:
        prompt_for_text()
    enc = encoder.load(model, device=device, threads=threads)
    given = batches(file, form, field, skip_bad)
    made = ((batch, _embedded(enc, batch, articles)) for batch in given)
    if out == DASH:
        for batch, embeddings in made:
            _print(batch, embeddings)
        return
    with saving(out.resolve(), enc.dim, enc.mix, enc.digest) as table:
        for _, embeddings in made:
            table.add(embeddings.dense, embeddings.lexical)


def _embedded(enc: Encoder, batch: list[GivenText], articles: bool) -> Embeddings:
    if articles:
        return enc.articles(
            [(each.title, each.text) if each.title else each.text for each in batch]
        )
    return enc.posts([each.text for each in batch])


def _print(batch: list[GivenText], embeddings: Embeddings) -> None:
    """One JSON object a row; nine digits give every float32 back exactly."""
    lexical = embeddings.lexical
    for i, each in enumerate(batch):
        mine = slice(lexical.indptr[i], lexical.indptr[i + 1])
        slots = ",".join(map(str, lexical.slots[mine].tolist()))
        name = f'"id":{json.dumps(each.id)},' if each.id is not None else ""
        sys.stdout.write(
            f'{{{name}"dense":[{_numbers(embeddings.dense[i])}],'
            f'"lexical":{{"slots":[{slots}],"weights":[{_numbers(lexical.weights[mine])}]}}}}\n'
        )
    sys.stdout.flush()


def _numbers(row: F32) -> str:
    return ",".join(map("%.9g".__mod__, row.tolist()))
