"""`newsift train`: from a recipe and a folder of data to a model directory."""

import hashlib
import json
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from encoder.errors import DeviceError, InputError, ModelError
from encoder.model.siamese import Siamese
from encoder.model_directory import refuse_other_folder, write_model
from encoder.support.files import exclusive
from encoder.text.tokenizer import Tokenizer
from train.data.corpus import Corpus, read_corpus, read_everyday
from train.data.readers import SkippedRows, share
from train.loop.datasets import make_datasets
from train.loop.dev import Dev, dev_sets
from train.loop.progress import ProgressLog
from train.loop.steps import BatchSampler
from train.loop.trainer import BEST, LAST, LOG, RunFolder, Trainer
from train.model.encoders import BASELINE_KINDS, Baseline, is_baseline, make_encoder, write_baseline
from train.model.export import CHECKED_TEXTS, export
from train.model.start import StartingPoint, make_start
from train.recipe import Recipe
from train.teacher.star import StarTeacher

BACKGROUND_POSTS = 20_000


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """The options of `newsift train`."""

    recipe: Recipe
    name: str
    data: Path
    out: Path
    work: Path
    device: str = "cpu"
    star: Path | None = None
    vectors: Path | None = None


def train_model(order: TrainingOptions, log: ProgressLog) -> str:
    """Train, select λ on dev, write the model and return its digest."""
    validate_options(order)
    with ExitStack() as stack:
        _lock(order.work, stack)
        return _train_model(order, log)


def _lock(work: Path, stack: ExitStack) -> None:
    """Create the run's folder and lock it: the states of two runs would mix."""
    lock = work / ".lock"
    foreign = next((work / name for name in (BEST, LOG) if (work / name).exists()), None)
    if foreign and not lock.exists() and not (work / LAST).exists():
        raise InputError(f"{foreign}: is of no run; name another folder with --work")
    try:
        work.mkdir(parents=True, exist_ok=True)
        stack.enter_context(exclusive(lock))
    except BlockingIOError as error:
        raise InputError(
            f"{work}: another run is under way in it; wait for it, or name another folder "
            "with --work"
        ) from error
    except OSError as error:
        raise InputError(f"{work}: cannot be made ({error.strerror})") from error


def _train_model(order: TrainingOptions, log: ProgressLog) -> str:
    recipe, skips = order.recipe, SkippedRows()
    log.progress("reading")
    background = read_background_posts(order.data, SkippedRows())  # read_corpus counts its rows
    texts = read_corpus(order.data, skips)
    if skips.count:
        log.line(str(skips))
    if not texts.pairs and not texts.posts and not texts.articles:
        raise InputError(f"{order.data}: holds no pairs, posts or articles to train on")
    teacher = StarTeacher(order.star) if order.star and recipe.needs_teacher else None
    log.progress("counting words")
    start = make_start(recipe, texts, teacher, order.vectors)
    reader = Tokenizer(start.vocabulary, start.idf, recipe.model)
    dev = Dev(dev_sets(order.data, SkippedRows()), reader, recipe, teacher)
    if not len(dev):
        log.line("nothing falls into the dev split: no early stop, and the first λ is taken")
    if teacher is not None:
        whole, texts = len(texts), teacher.restrict(texts)
        if not len(texts):
            raise InputError(
                f"{teacher.store.folder}: no text has a vector from the teacher; run "
                "`python -m train.transformer.embed`"
            )
        if len(texts) < whole:
            log.line(f"{whole - len(texts):,} of {whole:,} texts have no vector and do not train")
    datasets = make_datasets(texts, reader, teacher)
    model = make_model(recipe, start).to(order.device)
    sampler = BatchSampler(recipe, datasets, start.directions)
    folder = RunFolder(order.work, fingerprint(texts, start, dev))
    trainer = Trainer(model, recipe, sampler.step, dev.judge, folder, log)
    return write_result(order, trainer.run().cpu().eval(), start, dev, background)


def validate_options(order: TrainingOptions) -> None:
    """Check early what would fail after training: the output folder and the device."""
    if order.device == "cuda" and not torch.cuda.is_available():
        raise DeviceError("device: no CUDA here; use --device cpu")
    if order.recipe.needs_teacher and order.star is None:
        raise InputError("--star: this recipe learns from a star; name the folder of its training")
    if order.recipe.encoder not in BASELINE_KINDS:
        refuse_other_folder(order.out)
    elif order.out.exists() and not is_baseline(order.out):
        raise ModelError(f"{order.out}: exists and is not a model directory; name another place")
    work, out = order.work.resolve(), order.out.resolve()
    if out in (work, *work.parents):
        raise InputError(f"--work: {order.work} lies in the model {order.out}; name one outside it")
    try:
        order.out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=order.out.parent):
            pass
    except OSError as error:
        raise ModelError(f"{order.out}: cannot be written ({error.strerror})") from error


def read_background_posts(data: Path, skips: SkippedRows) -> list[str]:
    """Read everyday posts for automatic thresholds."""
    posts = sorted(read_everyday(data, skips), key=share)[:BACKGROUND_POSTS]
    if len(posts) < CHECKED_TEXTS:
        raise InputError(
            f"{data}/tweets: {len(posts)} everyday posts that do not train; a model needs at least "
            f"{CHECKED_TEXTS} for its automatic threshold, better some thousands; {skips}"
        )
    return posts


def make_model(recipe: Recipe, start: StartingPoint) -> nn.Module:
    """Create the untrained model, with the idf as gates."""
    model = make_encoder(recipe.encoder, recipe.model, start.vectors, recipe.seed)
    if isinstance(model, Siamese) and model.residual is not None:
        with torch.no_grad():
            gates = torch.from_numpy(start.gates).log()
            model.residual.log_gates.copy_(gates.expand_as(model.residual.log_gates))
    return model


def fingerprint(texts: Corpus, start: StartingPoint, dev: Dev) -> str:
    """A digest of the training texts, the initial vectors and the dev split."""
    digest = hashlib.sha256(start.vectors.tobytes())
    pairs: Iterable[tuple[str, ...]] = ((pair.post, *pair.story) for pair in texts.pairs)
    alone = ((text,) for text in (*texts.posts, *texts.sentences))
    for row in (*alone, *texts.articles, *texts.claims, *pairs):
        digest.update("\0".join(row).encode("utf-8", "surrogatepass") + b"\n")
    digest.update(json.dumps(dev.sets, default=np.ndarray.tolist).encode())
    return digest.hexdigest()[:12]


def write_result(
    order: TrainingOptions,
    model: nn.Module,
    start: StartingPoint,
    dev: Dev,
    background: list[str],
) -> str:
    """Write the trained model with its dev figures and its provenance."""
    recipe = order.recipe
    provenance: dict[str, Any] = {
        "trained": True,
        "how": f"newsift train {order.name}",
        "recipe": asdict(recipe),
        "data": "public posts and articles, see SOURCES.json of the data",
    }
    if not isinstance(model, Siamese):
        figures = dev.judge(model)
        baseline = Baseline(
            recipe.encoder, recipe.model, model, start.vocabulary, start.idf, figures["mix"]
        )
        return write_baseline(order.out, baseline, {"dev": figures} | provenance)
    weights = model.weights()
    figures = dev.judge(Siamese.from_weights(weights).eval())
    exported = export(weights, start.vocabulary, start.idf, figures["mix"], background)
    described = replace(exported, metrics={"dev": figures}, provenance=provenance)
    return write_model(order.out, described)
