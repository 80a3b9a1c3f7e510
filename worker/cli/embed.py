"""`newsift embed`: texts in, embeddings out."""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

import encoder
from encoder import Embeddings, Encoder, InputError
from encoder.embeddings_file import saving
from encoder.model.weights import F32
from worker.cli.common import CLEAR, model_options, say
from worker.cli.rows import FORMATS, BadRow, Row, opened, read_rows
from worker.cli.target import DASH

BATCH_ROWS = 4096
BATCH_BYTES = 8 * 2**20


class Intake:
    """The good rows of an input in batches; bad ones are refused, or told and counted."""

    def __init__(self, rows: Iterable[Row | BadRow], skip_bad: bool) -> None:
        self.good = self.bad = 0
        self._rows = rows
        self._skip_bad = skip_bad
        self._live = sys.stderr.isatty()
        self._start = time.monotonic()

    def __iter__(self) -> Iterator[list[Row]]:
        try:
            yield from self._batches()
        finally:
            if self._live and self.good:
                click.echo(err=True)
        self._conclude()

    def _batches(self) -> Iterator[list[Row]]:
        batch: list[Row] = []
        size = 0
        for row in self._rows:
            if isinstance(row, BadRow):
                self._refuse(row)
                continue
            batch.append(row)
            size += row.size
            if len(batch) == BATCH_ROWS or size >= BATCH_BYTES:
                yield batch
                self._count(batch)
                batch, size = [], 0
        if batch:
            yield batch
            self._count(batch)

    def _refuse(self, row: BadRow) -> None:
        told = f"line {row.line} {row.reason}"
        if not self._skip_bad:
            raise InputError(f"{told} (--skip-bad passes over such rows)")
        self.bad += 1
        say(f"skipped: {told}", self._live)

    def _count(self, batch: list[Row]) -> None:
        self.good += len(batch)
        if self._live:
            rate = self.good / (time.monotonic() - self._start)
            click.echo(f"{CLEAR}{self.good:,} rows, {rate:,.0f}/s", nl=False, err=True)

    def _conclude(self) -> None:
        if self.bad and not self.good:
            raise InputError("no row could be read; the reasons stand above")
        if self.bad:
            say(f"bad rows skipped: {self.bad}, rows read: {self.good}")


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="The safetensors file to write.")
@click.option("--articles", is_flag=True, help="The texts are articles, not posts.")
@click.option("--format", "form", default="auto", type=click.Choice(FORMATS), help="Of the input.")
@click.option("--field", default="text", metavar="KEY", help="The JSON key of the text.")
@click.option("--skip-bad", is_flag=True, help="Pass over rows that cannot be read.")
@model_options
def embed(
    file: Path | None, out: Path | None, articles: bool, form: str, field: str, skip_bad: bool,
    model: str, device: str, threads: int | None,
) -> None:  # fmt: skip
    """Turn the texts of FILE, or of standard input, into embeddings.

    The input is one text a line, or JSON lines with the keys text, and if there are any title and
    id; gzip is unpacked. The embeddings go to --out as safetensors, row by row as the input, or as
    JSON lines to standard output. Memory does not grow with the input; --out takes about 1.3 KB of
    disk for each row, and as much again until it is complete.
    """
    file, out = (None if path == DASH else path for path in (file, out))
    if out is not None:
        _check_target(out, file)
    with opened(file) as stream:
        enc = encoder.load(model, device=device, threads=threads)
        intake = Intake(read_rows(stream, form, field), skip_bad)
        if out is None:
            for batch in intake:
                _print(batch, _embedded(enc, batch, articles))
        else:
            with saving(out.resolve(), enc.dim, enc.mix, enc.digest) as made:
                for batch in intake:
                    part = _embedded(enc, batch, articles)
                    made.add(part.dense, part.lexical)


def _embedded(enc: Encoder, batch: list[Row], articles: bool) -> Embeddings:
    if articles:
        return enc.articles([(row.title, row.text) if row.title else row.text for row in batch])
    return enc.posts([row.text for row in batch])


def _print(batch: list[Row], embeddings: Embeddings) -> None:
    """One JSON object a row; nine digits give every float32 back exactly."""
    lexical = embeddings.lexical
    for i, row in enumerate(batch):
        mine = slice(lexical.indptr[i], lexical.indptr[i + 1])
        slots = ",".join(map(str, lexical.slots[mine].tolist()))
        name = f'"id":{json.dumps(row.id)},' if row.id is not None else ""
        sys.stdout.write(
            f'{{{name}"dense":[{_numbers(embeddings.dense[i])}],'
            f'"lexical":{{"slots":[{slots}],"weights":[{_numbers(lexical.weights[mine])}]}}}}\n'
        )
    sys.stdout.flush()


def _numbers(row: F32) -> str:
    return ",".join(map("%.9g".__mod__, row.tolist()))


def _check_target(out: Path, source: Path | None) -> None:
    """Refuse, before any work, a target that cannot be written or is the input itself."""
    if out.is_dir():
        raise InputError(f"--out {out}: is a folder; name a file in it")
    if out.suffix != ".safetensors":
        raise InputError(f"--out {out}: must end in .safetensors; JSON lines go to standard output")
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: there is no folder {out.parent}; make it first")
    if source is not None and out.exists() and source.exists() and out.samefile(source):
        raise InputError(f"--out {out}: is the input itself; name another file")
