"""`newsift embed`: texts in, embeddings out."""

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import click

import encoder
from encoder import Embeddings, Encoder, InputError
from encoder.embeddings_file import saving
from encoder.model.weights import F32
from worker.cli.options import file_options, model_options
from worker.cli.terminal import ProgressLine, prompt_for_text, say
from worker.config import DEFAULT_LIMITS
from worker.files.find import found_files
from worker.files.formats.columns import FileOptions
from worker.files.messages import FileMessage
from worker.files.posts import FileMessages, checked, refuse_many_bad, share_read
from worker.files.read import DASH
from worker.files.texts import GivenText, given_text
from worker.files.write import check_targets

BATCH_TEXTS = 4096
BATCH_BYTES = 8 * 2**20


class Texts:
    """The good texts of inputs in batches; bad ones are refused, or told and counted."""

    def __init__(self, inputs: Sequence[FileMessages], skip_bad: bool) -> None:
        self._rows = chain.from_iterable(chain.from_iterable(inputs))
        self._skip_bad, self._bad = skip_bad, 0
        self._progress = ProgressLine(share_read(inputs))

    def __iter__(self) -> Iterator[list[GivenText]]:
        batch: list[GivenText] = []
        size = 0
        for message in self._rows:
            if (given := self._given(message)) is None:
                continue
            batch.append(given)
            size += len(message.raw)
            if len(batch) == BATCH_TEXTS or size >= BATCH_BYTES:
                yield batch
                self._progress.add(len(batch), "rows")
                batch, size = [], 0
        if batch:
            yield batch
            self._progress.add(len(batch), "rows")
        self._conclude()

    def refuse_many_bad(self) -> None:
        """Fail at the end where too many rows were bad."""
        refuse_many_bad(self._bad, self._bad + self._progress.done)

    def _given(self, message: FileMessage) -> GivenText | None:
        try:
            return given_text(message)
        except ValueError as error:
            if not self._skip_bad:
                said = f"{message.topic}, {error} (--skip-bad passes over such rows)"
                raise InputError(said) from error
            self._bad += 1
            say(f"skipped: {message.topic}, {error}")
            return None

    def _conclude(self) -> None:
        good = self._progress.done
        if self._bad and not good:
            raise InputError("no row could be read; the reasons stand above")
        if self._bad:
            say(f"bad rows skipped: {self._bad}, rows read: {good}")
        if good and sys.stderr.isatty():
            say(f"{good:,} rows, {self._progress.rate()}")


@click.command()
@click.argument("file", default=DASH, type=click.Path(path_type=Path), metavar="[FILE]")
@click.option("--out", default=DASH, type=click.Path(path_type=Path),
              help="The safetensors file to write.")  # fmt: skip
@click.option("--articles", is_flag=True, help="The texts are articles, not posts.")
@file_options
@click.option("--skip-bad", is_flag=True, help="Pass over rows that cannot be read.")
@model_options
def embed(
    file: Path, out: Path, articles: bool, wanted: FileOptions, skip_bad: bool,
    model: str, device: str, threads: int | None,
) -> None:  # fmt: skip
    """Turn the texts of FILE, or of standard input, into embeddings.

    The input is what `newsift filter` reads; of articles the title stands under title. The
    embeddings go to --out as safetensors, row by row as the input, or as
    JSON lines to standard output. Memory does not grow with the input; --out takes about 1.3 KB of
    disk for each row, and as much again until it is complete.
    """
    files = found_files([file])
    check_targets({"--out": out}, files)
    if out != DASH and out.suffix != ".safetensors":
        raise InputError(f"--out {out}: must end in .safetensors; JSON lines go to standard output")
    if file == DASH:
        prompt_for_text()
    inputs = checked(files, wanted, DEFAULT_LIMITS, say, blank=True)
    enc = encoder.load(model, device=device, threads=threads)
    texts = Texts(inputs, skip_bad)
    made = ((batch, _embedded(enc, batch, articles)) for batch in texts)
    if out == DASH:
        for batch, embeddings in made:
            _print(batch, embeddings)
    else:
        with saving(out.resolve(), enc.dim, enc.mix, enc.digest) as table:
            for _, embeddings in made:
                table.add(embeddings.dense, embeddings.lexical)
    texts.refuse_many_bad()


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
