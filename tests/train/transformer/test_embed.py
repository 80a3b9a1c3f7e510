from pathlib import Path

import numpy as np
import torch
from click.testing import CliRunner

from encoder.embeddings import unit_rows
from encoder.model.config import AstConfig
from encoder.readers.star_chunks import CHUNK_TOKENS, chunks_of
from encoder.text.tokenizer import Tokenizer
from tests.encoder.small_model import small_model
from tests.encoder.small_transformer import write_run
from tests.train.data_folder import training_folder
from train.data.corpus import read_corpus
from train.data.readers import SkippedRows
from train.teacher.star import StarTeacher, texts_to_embed
from train.transformer import embed
from train.transformer.mpnet import padded


def test_every_text_has_the_stars_vector_once(tmp_path: Path) -> None:
    data, star = training_folder(tmp_path / "data"), write_run(tmp_path / "star")
    options = ["--data", str(data), "--star", str(tmp_path / "star")]
    for _ in range(2):
        CliRunner().invoke(embed.main, options, catch_exceptions=False)
    every = sorted(set(texts_to_embed(read_corpus(data, SkippedRows()))))
    store = StarTeacher(tmp_path / "star").store
    assert len(store) == len(every)
    config = AstConfig(post_tokens=CHUNK_TOKENS)
    short = [text for text in every if len(text) < CHUNK_TOKENS]
    tokens = Tokenizer(small_model().vocabulary, None, config).posts(short)
    for row in range(0, len(short), 50):
        ids = tokens.ids[tokens.offsets[row] : tokens.offsets[row + 1]]
        chunks, _ = chunks_of(ids, np.array([0, len(ids)]))
        with torch.inference_mode():
            exact = unit_rows(star(*padded(chunks)).numpy())
        stored = store.get([short[row]])
        assert np.abs(stored - exact).max() < 0.03  # bf16
