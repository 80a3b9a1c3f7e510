"""The encoders of published comparisons (CNN, GRU, mean), trainable and for evaluation."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from encoder.errors import InputError, ModelError
from encoder.model.config import AstConfig, Side
from encoder.model.siamese import Siamese
from encoder.model.star import Attention, Texts, neighbours
from encoder.model.weights import F32
from encoder.score.lexical import Idf
from encoder.text.vocabulary import VOCABULARIES, Vocabulary
from train.loop.checkpoint import Checkpoint

NGRAMS = (1, 2, 3, 4)
FIXED_ALPHA = {  # before the sigmoid
    "ast-softmax": -torch.inf, "ast-sparsemax": torch.inf, "ast-entmax15": 0.0,
}  # fmt: skip


class TableEncoder(nn.Module):
    """The base of the compared encoders: a table of token vectors."""

    def __init__(self, config: AstConfig, vectors: F32) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Parameter(torch.tensor(vectors))

    def look_up(self, ids: Tensor) -> Tensor:  # [N] -> [N, d]
        return F.embedding(ids, self.embedding)


class Mean(TableEncoder):
    """The mean of the token vectors."""

    def forward(self, ids: Tensor, offsets: Tensor, side: Side) -> Tensor:
        """Compute one vector per text [n, d]; zero for a text without tokens."""
        return Texts.at(offsets, len(ids)).mean(self.look_up(ids))


class Cnn(TableEncoder):
    """Kim's network: filters over n-grams of 1 to 4 tokens, their maximum over the text."""

    def __init__(self, config: AstConfig, vectors: F32) -> None:
        super().__init__(config, vectors)
        width = config.dim // len(NGRAMS)
        widths = [width] * (len(NGRAMS) - 1) + [config.dim - width * (len(NGRAMS) - 1)]
        self.filters = nn.ModuleList(
            nn.Linear(n * config.dim, w) for n, w in zip(NGRAMS, widths, strict=True)
        )

    def forward(self, ids: Tensor, offsets: Tensor, side: Side) -> Tensor:
        """Compute one vector per text [n, d]; n-grams are padded with zeros."""
        texts = Texts.at(offsets, len(ids))
        longest = max(NGRAMS) - 1
        near = neighbours(F.pad(self.look_up(ids), (0, 0, longest, longest)), longest)[longest:]
        same = texts.outside(longest)[longest:].logical_not()  # [4, N, 1]
        windows = [x * inside for x, inside in zip(near, same, strict=True)]  # 4 × [N, d]
        outputs = [
            texts.max(F.relu(layer(torch.cat(windows[:n], 1))))
            for n, layer in zip(NGRAMS, self.filters, strict=True)
        ]
        return torch.cat(outputs, 1)


class Gru(TableEncoder):
    """A gated recurrent network; a text's vector is its last state, of both directions if any."""

    def __init__(self, config: AstConfig, vectors: F32, both_ways: bool = False) -> None:
        super().__init__(config, vectors)
        width = config.dim // (1 + both_ways)
        self.gru = nn.GRU(config.dim, width, batch_first=True, bidirectional=both_ways)

    def forward(self, ids: Tensor, offsets: Tensor, side: Side) -> Tensor:
        """Compute one vector per text [n, d]; zero for a text without tokens."""
        texts = Texts.at(offsets, len(ids))
        nonempty = texts.lengths > 0
        out = self.embedding.new_zeros(texts.count, self.config.dim)
        if not nonempty.any():
            return out
        place = torch.arange(len(ids), device=ids.device) - texts.spread(offsets[:-1])
        longest = int(texts.lengths.max())
        batch = self.embedding.new_zeros(texts.count, longest, self.config.dim)
        batch = batch.index_put((texts.text, place), self.look_up(ids))  # [n, longest, d]
        sequences = pack_padded_sequence(
            batch[nonempty], texts.lengths[nonempty].cpu(), batch_first=True, enforce_sorted=False
        )
        _, last = self.gru(sequences)  # [directions, filled, hidden]
        return out.index_put((nonempty.nonzero()[:, 0],), last.transpose(0, 1).flatten(1))


BASELINE_KINDS: dict[str, Callable[[AstConfig, F32], nn.Module]] = {
    "cnn": Cnn,
    "gru": Gru,
    "bi-gru": partial(Gru, both_ways=True),
    "mean": Mean,
}
ENCODERS = ("ast", *FIXED_ALPHA, *BASELINE_KINDS)


def make_encoder(kind: str, config: AstConfig, vectors: F32, seed: int) -> nn.Module:
    """Create an encoder with random weights."""
    if kind not in ENCODERS:
        raise InputError(f"encoder: {kind!r} is not one of {', '.join(ENCODERS)}")
    if kind in BASELINE_KINDS:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return BASELINE_KINDS[kind](config, vectors)
    model = Siamese.initial(config, vectors, seed)
    if kind in FIXED_ALPHA:  # ablation: one fixed α for all heads
        for module in model.modules():
            if isinstance(module, Attention):
                module.raw_alpha.requires_grad_(False).fill_(FIXED_ALPHA[kind])
    return model


BASELINE = "baseline.safetensors"
IDF = "idf"


@dataclass(frozen=True, slots=True, eq=False)
class Baseline:
    """A trained encoder of any kind with its tokenizer."""

    kind: str
    config: AstConfig
    model: nn.Module
    vocabulary: Vocabulary
    idf: Idf
    mix: float


def write_baseline(path: Path, model: Baseline, notes: Mapping[str, Any]) -> str:
    """Write the folder with its provenance, and return the digest of its file."""
    tensors = model.model.state_dict() | {IDF: torch.from_numpy(model.idf.table)}
    values = {
        "encoder": model.kind,
        "config": model.config.as_dict(),
        "vocabulary": [model.vocabulary.kind, model.vocabulary.lines()],
        "mix": model.mix,
        "notes": notes,
    }
    path.mkdir(parents=True, exist_ok=True)
    Checkpoint(tensors, values).write(path / BASELINE)
    return hashlib.sha256((path / BASELINE).read_bytes()).hexdigest()


def is_baseline(path: Path) -> bool:
    return (path / BASELINE).is_file()


def read_baseline(path: Path) -> Baseline:
    """Read the folder; an InputError names the invalid file."""
    checkpoint = Checkpoint.read(path / BASELINE)
    if checkpoint is None:
        raise ModelError(f"{path}: holds no {BASELINE}")
    try:
        values, state = checkpoint.values, dict(checkpoint.tensors)
        idf = Idf(state.pop(IDF).numpy())
        config = AstConfig.from_dict(values["config"])
        kind, lines = values["vocabulary"]
        vocabulary = VOCABULARIES[kind].from_lines(lines)
        nothing = np.zeros((vocabulary.size, config.dim), np.float32)
        model = make_encoder(values["encoder"], config, nothing, 0)
        model.load_state_dict(state)
        return Baseline(values["encoder"], config, model.eval(), vocabulary, idf, values["mix"])
    except (KeyError, TypeError, ValueError, RuntimeError, InputError) as error:
        raise ModelError(f"{path}: cannot be read as an encoder ({error})") from error
