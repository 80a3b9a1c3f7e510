"""Against MPNet by its makers' library, where the extra `peers` is installed."""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import pytest
import torch

from encoder.model.config import AstConfig
from encoder.readers.star_chunks import CHUNK_TOKENS, chunks_of
from encoder.text.tokenizer import Tokenizer
from train.transformer.mpnet import PARTS, Mpnet, bert_pieces, mpnet_archive, mpnet_folder

TEXTS = ["a ferry is on fire", "Lifeboats save 412 from a burning ferry. " * 8, "tacos"]


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    try:
        distribution(PARTS[0])
        distribution("sentence-transformers")
    except PackageNotFoundError as error:
        pytest.skip(f"{error}: `make peers` installs MPNet")


def test_vectors_are_those_of_sentence_transformers(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    with mpnet_archive() as archive:
        archive.extractall(tmp_path)
    (folder,) = (file.parent for file in tmp_path.rglob("modules.json"))
    peer = SentenceTransformer(str(folder), device="cpu")
    expected = peer.encode(TEXTS, normalize_embeddings=True)
    cosines = (Mpnet.open().texts(TEXTS) * expected).sum(1)
    assert np.min(cosines) > 0.999  # ours are computed in bf16


def test_plain_english_has_the_same_ids_as_in_mpnets_own_tokenizer() -> None:
    teacher = Mpnet.open()
    own = Tokenizer(bert_pieces(mpnet_folder()), None, AstConfig(post_tokens=CHUNK_TOKENS)).posts(
        TEXTS
    )
    for mine, theirs in zip(
        chunks_of(own.ids, own.offsets)[0], teacher.tokenizer.ids(TEXTS), strict=True
    ):
        assert torch.equal(torch.from_numpy(mine), torch.from_numpy(theirs))
