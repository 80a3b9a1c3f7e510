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


class Intake:
    """The good texts of an input in batches; bad ones are refused, or told and counted."""

    def __init__(self, file: Path, form: str, field: str, skip_bad: bool) -> None:
        self.good = self.bad = 0
        self._file, self._form, self._field = file, form, field
        self._skip_bad = skip_bad

    def __iter__(self) -> Iterator[list[GivenText]]:
        progress = ProgressLine()
        batch: list[GivenText] = []
        size = 0
        for number, line in each_line(self._file):
            text = self._read(number, line)
            if text is None:
                continue
            batch.append(text)
            size += len(line)
            if len(batch) == BATCH_TEXTS or size >= BATCH_BYTES:
                yield batch
                progress.add(len(batch), "rows")
                batch, size = [], 0
        if batch:
            yield batch
            progress.add(len(batch), "rows")
        self._conclude(progress)

    def _read(self, number: int, line: bytes) -> GivenText | None:
        if self._form == "auto":
            self._form = format_of(line)
        if self._form == "jsonl" and not line.strip():
            return None
        try:
            found = read_given(line, self._form, self._field)
        except ValueError as error:
            if not self._skip_bad:
                said = f"line {number} {error} (--skip-bad passes over such rows)"
                raise InputError(said) from error
            self.bad += 1
            say(f"skipped: line {number} {error}")
            return None
        self.good += 1
        return found

    def _conclude(self, progress: ProgressLine) -> None:
        if self.bad and not self.good:
            raise InputError("no row could be read; the reasons stand above")
        if self.bad:
            say(f"bad rows skipped: {self.bad}, rows read: {self.good}")
        if self.good and sys.stderr.isatty():
            say(f"{self.good:,} rows, {progress.rate()}")


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
    intake = Intake(file, form, field, skip_bad)
    enc = encoder.load(model, device=device, threads=threads)
    made = ((batch, _embedded(enc, batch, articles)) for batch in intake)
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
