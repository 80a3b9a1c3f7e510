"""The peers: absent ones say what to install, present ones do what they are there for."""

import importlib.util
from typing import Any

import numpy as np
import pytest

from bench import peers
from bench.measure import NotAvailable
from encoder.model.weights import F32
from encoder.text.vocabulary import WordPiece


def test_an_absent_peer_says_what_to_install() -> None:
    with pytest.raises(NotAvailable, match=r"no_such_module: .*pip install newsift\[peers\]"):
        peers.need("json", "no_such_module")


def test_a_quantised_peer_that_drifts_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fixed:
        def __init__(self, tilt: float = 0.0) -> None:
            self.tilt = tilt

        def posts(self, texts: Any) -> F32:
            return np.array([[np.cos(self.tilt), np.sin(self.tilt)]] * len(texts), np.float32)

    monkeypatch.setattr(peers, "minilm", Fixed)
    near: Any = Fixed(0.1)
    assert peers.check_int8(near) == pytest.approx(np.cos(0.1))
    far: Any = Fixed(0.5)
    with pytest.raises(NotAvailable, match=r"cosine 0\.878"):
        peers.check_int8(far)


@pytest.mark.skipif(not importlib.util.find_spec("tokenizers"), reason="no HF tokenizers here")
def test_the_rust_tokenizer_reads_the_same_vocabulary() -> None:
    vocabulary = WordPiece.from_lines(["[PAD]", "[UNK]", "storm", "##s", "now"])
    made = peers.fast_tokenizer(vocabulary)
    assert made.encode("Storms NOW x", add_special_tokens=False).ids == [2, 3, 4, 1]
