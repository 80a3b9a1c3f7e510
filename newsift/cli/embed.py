"""`newsift embed`: texts to embeddings."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import click
import msgspec

import encoder
from encoder import Embeddings, InputError
from encoder.embeddings import SKIMMED, embeddings_writer
from encoder.model.weights import F32
from newsift.cli.options import PATH, file_options, model_options
from newsift.cli.terminal import prompt_for_text
from newsift.files.messages import FileMessage
from newsift.files.posts import FileMessages, open_inputs, refuse_many_bad, share_read
from newsift.files.read import DASH, find_files
from newsift.files.tables import FileOptions
from newsift.files.write import check_targets
from newsift.operations.messages import ProgressLine, notify
from worker.config import ModelConfig
from worker.config.limits import DEFAULT_LIMITS
from worker.posts.outcome import NO_WORDS, Post, Rejected
from worker.text import plural

MAX_BATCH_TEXTS = 4096
MAX_BATCH_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class InputText:
    text: str
    title: str = ""
    id: str | None = None


class TitledRecord(msgspec.Struct):
    title: str | None = None


TITLED_RECORD = msgspec.json.Decoder(TitledRecord)


def input_text(message: FileMessage) -> InputText | None:
    """None for a row without a post. Raises ValueError for a bad row."""
    outcome = message.reading
    if isinstance(outcome, Rejected):
        raise ValueError(f"{message.place}: {outcome.detail}")
    if isinstance(outcome, Post):
        return InputText(outcome.text, _title(message), outcome.id)
    return InputText("") if outcome == NO_WORDS else None


def _title(message: FileMessage) -> str:
    if message.columns is not None:
        return message.columns.get("title", "")
    try:
        return TITLED_RECORD.decode(message.value).title or ""
    except msgspec.MsgspecError:
        raise ValueError(f"{message.place} has a 'title' that is not text") from None


class TextBatches:
    """Batches of the readable texts; others are an error, or skipped and counted."""

    def __init__(self, inputs: Sequence[FileMessages], skip_bad: bool) -> None:
        self._rows = chain.from_iterable(chain.from_iterable(inputs))
        self._skip_bad, self.bad = skip_bad, 0
        self.progress = ProgressLine(share_read(inputs))

    def __iter__(self) -> Iterator[list[InputText]]:
        batch: list[InputText] = []
        size = 0
        for message in self._rows:
            if (text := self._read(message)) is None:
                continue
            batch.append(text)
            size += len(message.raw)
            if len(batch) == MAX_BATCH_TEXTS or size >= MAX_BATCH_BYTES:
                yield batch
                self.progress.add(len(batch), "rows")
                batch, size = [], 0
        if batch:
            yield batch
            self.progress.add(len(batch), "rows")
        good = self.progress.count
        if self.bad and not good:
            raise InputError("no row could be read; see the reasons above")
        if self.bad:
            notify(f"bad rows skipped: {self.bad}, rows read: {good}")
        if good and sys.stderr.isatty():
            notify(f"{plural(good, 'row')}, {self.progress.rate()}")

    def _read(self, row: FileMessage) -> InputText | None:
        try:
            return input_text(row)
        except ValueError as error:
            if not self._skip_bad:
                raise InputError(f"{row.topic}, {error} (--skip-bad skips such rows)") from error
            self.bad += 1
            notify(f"skipped: {row.topic}, {error}")
            return None


@click.command()
@click.argument("file", default=DASH, type=PATH, metavar="[FILE]")
@click.option("--out", default=DASH, type=PATH, help="The safetensors file to write.")
@click.option("--articles", is_flag=True, help="The texts are articles, not posts.")
@click.option("--skim", is_flag=True, help="Skim posts: approximate vectors, much faster.")
@file_options
@click.option("--skip-bad", is_flag=True, help="Skip rows that cannot be read.")
@model_options
def embed(
    file: Path, out: Path, file_options: FileOptions, skip_bad: bool, model: ModelConfig,
    **kinds: bool,
) -> None:  # fmt: skip
    """Turn the texts of FILE, or of standard input, into embeddings.

    Reads the formats of `newsift filter`; the title of an article is read from `title`. The
    embeddings go to --out as safetensors, one row for each input row, or to standard output as JSON
    lines. Memory does not grow with the input; --out takes about 1.3 KB of disk for each row, and
    as much again until it is complete.
    """
    articles, skim = kinds["articles"], kinds["skim"]
    if skim and articles:
        raise click.UsageError("--skim is for posts: articles are always read; leave one out")
    files = find_files([file])
    check_targets({"--out": out}, files)
    if out != DASH and out.suffix != ".safetensors":
        raise InputError(f"--out {out}: must end in .safetensors; JSON lines go to standard output")
    if file == DASH:
        prompt_for_text()
    inputs = open_inputs(files, file_options, DEFAULT_LIMITS, notify, blank=True)
    enc = encoder.load(model.name, device=model.device, threads=model.threads)
    texts = TextBatches(inputs, skip_bad)
    read = enc.skim if skim else enc.posts

    def embed_batch(batch: list[InputText]) -> Embeddings:
        if articles:
            titled = ((text.title, text.text) if text.title else text.text for text in batch)
            return enc.articles(list(titled))
        return read([text.text for text in batch])

    embedded_batches = ((batch, embed_batch(batch)) for batch in texts)
    if out == DASH:
        for batch, embeddings in embedded_batches:
            _print(batch, embeddings)
    else:
        note = {SKIMMED: "true"} if skim else {}
        with embeddings_writer(out.resolve(), enc.dim, enc.mix, enc.digest, note) as table:
            for _, embeddings in embedded_batches:
                table.add(embeddings.dense, embeddings.lexical)
    refuse_many_bad(texts.bad, texts.bad + texts.progress.count)


def _print(batch: list[InputText], embeddings: Embeddings) -> None:
    """One JSON object a row; nine digits give every float32 back exactly."""
    lexical = embeddings.lexical
    for i, text in enumerate(batch):
        entries = slice(lexical.indptr[i], lexical.indptr[i + 1])
        slots = ",".join(map(str, lexical.slots[entries].tolist()))
        name = f'"id":{json.dumps(text.id)},' if text.id is not None else ""
        sys.stdout.write(
            f'{{{name}"dense":[{_numbers(embeddings.dense[i])}],'
            f'"lexical":{{"slots":[{slots}],"weights":[{_numbers(lexical.weights[entries])}]}}}}\n'
        )
    sys.stdout.flush()


def _numbers(row: F32) -> str:
    return ",".join(map("%.9g".__mod__, row.tolist()))
