"""Teach a star transformer the teacher's vectors.

python -m train.transformer.star_training --data ../shared/data --out DIR [--layers 0,1,2,9,10,11]
    [--window 16] [--from MODEL] [--steps COUNT] [--cache DIR] [--device cuda]

It starts from MPNet's own layers, or from the star of a model, whose space stays as it is. A
stopped run can be resumed. A longer one goes on from its end, at the rate of its own schedule: it
rises again there, so the weights are not those of a run that was as long from the start.
"""

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from encoder.errors import InputError
from encoder.model.config import AstConfig
from encoder.model.star_settings import StarSettings
from encoder.model.star_transformer import StarTransformer
from encoder.model.weights import F32, I32
from encoder.model_directory import read_model
from encoder.readers.star_chunks import CHUNK_TOKENS, chunks_of
from encoder.text.tokenizer import Tokenizer
from train.command import run_command
from train.data.blocks import blocks_of
from train.data.corpus import read_corpus
from train.data.readers import SkippedRows
from train.loop.bf16 import bf16_autocast
from train.loop.checkpoint import (
    Checkpoint,
    optimizer_tensors,
    restore_optimizer,
    select_prefix,
)
from train.transformer.bridge import bridge_after, fit_bridge
from train.transformer.mpnet import (
    BATCH_TOKENS,
    Mpnet,
    batches_by_length,
    bert_pieces,
    mpnet_folder,
    mpnet_weights,
    padded,
)
from train.transformer.quantise import restored_star
from train.transformer.teach import open_store, taught_texts

DEV_TEXTS = 2000  # the first of the texts' order; they never train
BRIDGE_TEXTS = 5000  # to which the bridge is fitted
AXES_TEXTS = 60_000  # from which the teacher's principal axes are taken
ALIGNED_TEXTS = 6000  # by which they are turned to those of a star that was begun elsewhere
POOL_BATCHES = 16  # texts are batched by length within a pool of so many batches
SAVE_EVERY = 100
CHECKPOINT = "star.safetensors"
# The tables of tokens and places stay as they are.
FROZEN = ("tokens.", "positions.", "distances.")


@dataclass(frozen=True, slots=True, kw_only=True)
class StarRecipe:
    """What a run is made of, but for its texts. Where it goes on, `decay_steps` may be another."""

    layers: tuple[int, ...] = (0, 1, 2, 9, 10, 11)  # of MPNet's twelve
    window: int = 16
    batch: int = 128
    rate: float = 1e-4
    warm_up: int = 100
    decay_steps: int = 5000  # from the peak linearly to zero
    similarity: float = 5.0  # the weight of the loss on a batch's similarities
    seed: int = 0
    from_model: str = ""  # the digest of the model whose star it goes on from

    @property
    def settings(self) -> StarSettings:
        return StarSettings(
            layers=len(self.layers), window=self.window, bridge=bridge_after(self.layers)
        )

    def rate_at(self, step: int) -> float:
        return (
            self.rate * min(1.0, (step + 1) / self.warm_up) * max(0.0, 1 - step / self.decay_steps)
        )


@dataclass(frozen=True, slots=True)
class TaughtTexts:
    """Token ids of texts, with the teacher's vectors on its principal axes."""

    ids: Sequence[I32]
    vectors: Tensor  # unit [texts, d]
    digest: str = ""  # of the ids and of the teacher's own vectors, before they were projected

    def batch(self, rows: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Ids [n, L], which are real [n, L], and the teacher's vectors [n, d]."""
        return (*padded([self.ids[row] for row in rows]), self.vectors[torch.tensor(rows)])


def principal_axes(vectors: F32, dim: int) -> Tensor:
    """The uncentred principal axes of vectors [texts, w]: [d, w]."""
    moment = torch.from_numpy(vectors).double()
    _, axes = torch.linalg.eigh(moment.T @ moment)  # by rising eigenvalue
    first: Tensor = axes.flip(1)[:, :dim].T.float().contiguous()
    return first


def aligned_axes(axes: Tensor, teacher: Tensor, star: Tensor) -> Tensor:
    """Axes [d, w] of the same space, on which the teacher's vectors [n, w] lie nearest the star's.

    Both vectors are of the same texts; the star's are [n, d].
    """
    left, _, right = torch.linalg.svd(star.T @ (teacher @ axes.T))
    turned: Tensor = left @ right @ axes
    return turned


def read_taught_texts(
    data: Path, cache: Path | None, dim: int, begun: StarTransformer | None
) -> tuple[TaughtTexts, Tensor]:
    """The texts that the teacher has read, and the axes on which its vectors lie.

    With a star that was begun elsewhere, the axes are those of its own space.
    """
    store = open_store(cache)
    texts = taught_texts(read_corpus(data, SkippedRows()))
    tokenizer = Tokenizer(bert_pieces(mpnet_folder()), None, AstConfig(post_tokens=CHUNK_TOKENS))
    ids: list[I32] = []
    taught: list[str] = []
    for part in blocks_of([text for text in texts if not store.missing([text])]):
        tokens = tokenizer.posts(part)
        chunks, counts = chunks_of(tokens.ids, tokens.offsets)  # one if a text has a token
        ids += chunks
        taught += [text for text, count in zip(part, counts, strict=True) if count]
    if len(taught) <= DEV_TEXTS:
        raise InputError(
            f"{store.folder}: has vectors of {len(taught):,} texts; run train.transformer.teach"
        )
    vectors = store.get(taught)
    axes = principal_axes(vectors[:AXES_TEXTS], dim)
    if begun is not None:
        own = unit_vectors(begun, ids[:ALIGNED_TEXTS])
        axes = aligned_axes(axes, torch.from_numpy(vectors[:ALIGNED_TEXTS]), own)
    projected = F.normalize(torch.from_numpy(vectors) @ axes.T, dim=1)
    return TaughtTexts(ids, projected, digest_of(ids, vectors)), axes


def digest_of(ids: Sequence[I32], vectors: F32) -> str:
    """A digest of texts and of the teacher's vectors of them."""
    digest = hashlib.sha256(np.concatenate(ids).tobytes())  # each has its own start and end
    digest.update(np.ascontiguousarray(vectors).data)
    return digest.hexdigest()[:12]


def batches(recipe: StarRecipe, texts: Sequence[I32], epoch: int) -> Iterator[list[int]]:
    """The batches of one pass over the texts: similar lengths together, in random order."""
    rng = np.random.default_rng([recipe.seed, epoch])
    order = DEV_TEXTS + rng.permutation(len(texts) - DEV_TEXTS)
    size = recipe.batch * POOL_BATCHES
    for start in range(0, len(order), size):
        pool = sorted(order[start : start + size].tolist(), key=lambda i: len(texts[i]))
        parts = [pool[i : i + recipe.batch] for i in range(0, len(pool), recipe.batch)]
        yield from (parts[i] for i in rng.permutation(len(parts)))


def loss_of(vectors: Tensor, teacher: Tensor, similarity: float) -> Tensor:  # 2 × [n, d] -> []
    """Distance to the teacher's vectors, and of the similarities within the batch to its."""
    unit = F.normalize(vectors.float(), dim=1)
    apart = 1 - (unit * teacher).sum(1).mean()
    between = (unit @ unit.T - teacher @ teacher.T).square().mean()
    return apart + similarity * between


@torch.inference_mode()
def unit_vectors(star: StarTransformer, texts: Sequence[I32]) -> Tensor:
    """The star's vectors of texts, of length 1: [n, d]."""
    out = torch.zeros(len(texts), star.settings.dim)
    for rows in batches_by_length(texts, BATCH_TOKENS):
        with bf16_autocast("cpu"):
            out[rows] = star(*padded([texts[row] for row in rows])).float()
    return F.normalize(out, dim=1)


def new_star(recipe: StarRecipe, axes: Tensor, texts: Sequence[I32]) -> StarTransformer:
    """MPNet's layers, cut to the ring.

    The texts are those that the bridge over left-out layers is fitted to.
    """
    star = StarTransformer(recipe.settings)
    weights = {**mpnet_weights(mpnet_folder(), recipe.layers), "axes.weight": axes}
    star.load_state_dict(weights, strict=recipe.settings.bridge is None)
    if (bridge := recipe.settings.bridge) is not None:
        parts = batches_by_length(texts, BATCH_TOKENS)
        batches = (padded([texts[i] for i in part]) for part in parts)
        fit_bridge(star, Mpnet.open().model, batches, to=recipe.layers[bridge + 1])
    return star


def read_star(folder: Path) -> StarTransformer:
    """The star of a run, as it was saved last."""
    checkpoint = Checkpoint.read(folder / CHECKPOINT)
    if checkpoint is None:
        raise InputError(f"{folder}: holds no {CHECKPOINT}; run train.transformer.star_training")
    star = StarTransformer(StarSettings.from_dict(checkpoint.values["settings"])).eval()
    names = star.state_dict()
    star.load_state_dict({name: checkpoint.tensors[f"model/{name}"] for name in names})
    return star


@dataclass(slots=True)
class StarTraining:
    """A run: the model, its optimizer and where it stands."""

    recipe: StarRecipe
    star: StarTransformer
    texts: TaughtTexts
    device: str
    step: int = 0
    optimizer: torch.optim.AdamW = field(init=False)

    def __post_init__(self) -> None:
        self.star.to(self.device)
        for name, parameter in self.star.named_parameters():
            parameter.requires_grad_(not name.startswith(FROZEN))
        trained = [p for p in self.star.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(
            trained, self.recipe.rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True
        )

    def run(self, steps: int, file: Path) -> None:
        """Train until this step, and save the state now and then."""
        begin, first = time.monotonic(), self.step
        losses: list[float] = []
        for batch in self._batches():
            if self.step >= steps:
                break
            losses.append(self._train(batch))
            self.step += 1
            if self.step % SAVE_EVERY == 0 or self.step == steps:
                self.save(file)
                pace = (time.monotonic() - begin) / (self.step - first)
                click.echo(
                    f"step {self.step:,} of {steps:,}: loss {np.mean(losses):.4f}, "
                    f"dev cosine {self.dev_cosine():.4f}, {pace:.2f} s a step"
                )
                losses = []

    def _batches(self) -> Iterator[list[int]]:
        """All batches from the current step on, pass after pass."""
        number = 0
        for epoch in range(self.step + 1_000_000):
            for batch in batches(self.recipe, self.texts.ids, epoch):
                if number >= self.step:
                    yield batch
                number += 1

    def _train(self, rows: list[int]) -> float:
        ids, real, teacher = (part.to(self.device) for part in self.texts.batch(rows))
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.rate_at(self.step)
        self.star.train()
        with bf16_autocast(self.device):
            vectors = self.star(ids, real)
        loss = loss_of(vectors, teacher, self.recipe.similarity)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.star.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()

    @torch.inference_mode()
    def dev_cosine(self) -> float:
        """The mean cosine with the teacher of texts that do not train."""
        self.star.eval()
        order = sorted(range(DEV_TEXTS), key=lambda i: len(self.texts.ids[i]))
        cosines = []
        for start in range(0, DEV_TEXTS, self.recipe.batch):
            parts = self.texts.batch(order[start : start + self.recipe.batch])
            ids, real, teacher = (part.to(self.device) for part in parts)
            with bf16_autocast(self.device):
                vectors = self.star(ids, real)
            cosines.append((F.normalize(vectors.float(), dim=1) * teacher).sum(1))
        return float(torch.cat(cosines).mean())

    def save(self, file: Path) -> None:
        tensors = {f"model/{name}": value for name, value in self.star.state_dict().items()}
        tensors |= optimizer_tensors(self.optimizer)
        values = {"step": self.step, "settings": self.star.settings.as_dict(), "run": self.origin}
        Checkpoint(tensors, values).write(file)

    @property
    def origin(self) -> dict[str, Any]:
        """What the run is made of, as its checkpoint says it."""
        origin = asdict(self.recipe)
        del origin["decay_steps"]
        return origin | {"layers": list(self.recipe.layers), "texts": self.texts.digest}

    def resume(self, file: Path) -> None:
        """Go on from the state in the file, if there is one; that of another run is refused."""
        checkpoint = Checkpoint.read(file)
        if checkpoint is None:
            return
        held = checkpoint.values.get("run")
        if held is None:
            raise InputError(f"{file}: does not say what its run is made of; name another --out")
        if other := [key for key, value in self.origin.items() if held.get(key) != value]:
            raise InputError(
                f"{file}: holds a run with other settings ({', '.join(other)}); name another --out"
            )
        self.restore(checkpoint)

    def restore(self, checkpoint: Checkpoint) -> None:
        self.star.load_state_dict(select_prefix(checkpoint.tensors, "model/"))
        restore_optimizer(self.optimizer, checkpoint.tensors)
        self.step = int(checkpoint.values["step"])


@dataclass(frozen=True, slots=True)
class StarOptions:
    """The options of the command."""

    data: Path
    out: Path
    cache: Path | None
    begin: Path | None
    layers: str
    window: int
    rate: float
    steps: int
    threads: int
    device: str

    @property
    def recipe(self) -> StarRecipe:
        return StarRecipe(
            layers=tuple(int(layer) for layer in self.layers.split(",")),
            window=self.window,
            rate=self.rate,
            decay_steps=self.steps,
            from_model="" if self.begin is None else read_model(self.begin).digest,
        )


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--cache", type=click.Path(path_type=Path), help="The folder of the vectors.")
@click.option(
    "--from", "begin", type=click.Path(path_type=Path, exists=True), help="A model to go on from."
)
@click.option("--layers", default="0,1,2,9,10,11", show_default=True, help="MPNet's, by number.")
@click.option("--window", type=click.IntRange(1), default=16, show_default=True)
@click.option("--rate", type=click.FloatRange(0, min_open=True), default=1e-4, show_default=True)
@click.option("--steps", type=click.IntRange(1), default=5000, show_default=True)
@click.option("--threads", type=click.IntRange(1), default=2, show_default=True)
@click.option("--device", default="cpu", type=click.Choice(["cpu", "cuda"]), show_default=True)
def main(**options: Any) -> None:
    """Train from MPNet's layers, or go on from the state in the folder."""
    train_star(StarOptions(**options))


def train_star(order: StarOptions) -> None:
    torch.set_num_threads(order.threads)
    recipe = order.recipe
    begun = None if order.begin is None else star_of_model(order.begin, recipe.settings)
    texts, axes = read_taught_texts(order.data, order.cache, recipe.settings.dim, begun)
    click.echo(f"{len(texts.ids):,} texts, {recipe}")
    order.out.mkdir(parents=True, exist_ok=True)
    file = order.out / CHECKPOINT
    if file.exists():
        star = StarTransformer(recipe.settings)
    else:
        fitted = texts.ids[DEV_TEXTS : DEV_TEXTS + BRIDGE_TEXTS]
        star = begun or new_star(recipe, axes, fitted)
    training = StarTraining(recipe, star, texts, order.device)
    training.resume(file)
    click.echo(f"step {training.step:,}: dev cosine {training.dev_cosine():.4f}")
    training.run(order.steps, file)


def star_of_model(folder: Path, settings: StarSettings) -> StarTransformer:
    """The star of a model, which must have these settings."""
    model = read_model(folder)
    if model.star is None or model.star.weights.settings != settings:
        raise InputError(f"--from {folder}: has no star of this size; leave --from out")
    return restored_star(model.star.weights)


if __name__ == "__main__":
    run_command(main)
