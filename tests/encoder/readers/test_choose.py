import logging
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray

import encoder
from encoder.errors import DeviceError
from encoder.model.config import Side
from encoder.model.weights import F32, I32, I64
from encoder.model_directory import write_model
from encoder.readers import choose
from encoder.readers.gated_mean import GatedMeanKernel
from tests.encoder.slow_star import reference
from tests.encoder.small_model import background, small_model

ONES = Mock(forward=lambda _, offsets, side: np.ones((len(offsets) - 1, 12), np.float32))


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        ({"return_value": ONES}, "are off by"),
        ({"side_effect": RuntimeError("no such instruction")}, "no such instruction"),
    ],
)
def test_a_kernel_that_fails_its_check_gives_way_to_torch_with_one_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture,
    outcome: dict[str, Any], why: str,
) -> None:  # fmt: skip
    write_model(tmp_path / "m", small_model())
    monkeypatch.setattr("encoder.readers.gated_mean.GatedMeanKernel", Mock(**outcome))
    with caplog.at_level(logging.WARNING, "newsift.encoder"):
        enc = encoder.load(tmp_path / "m", device="cpu")
    assert enc.path == "torch"
    assert len(caplog.records) == 1
    assert why in caplog.text
    assert len(enc.posts(["storm"])) == 1


WRONG: dict[str, Callable[[I64, Side], NDArray[np.bool_]]] = {
    "posts": lambda lengths, side: (lengths > 0) & (side is Side.POST),
    "articles": lambda lengths, side: (lengths > 0) & (side is Side.ARTICLE),
    "long texts": lambda lengths, side: lengths >= 60,
    "texts without a token": lambda lengths, side: lengths == 0,
}


@pytest.mark.parametrize("where", WRONG)
def test_a_kernel_that_is_wrong_only_here_does_not_pass(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    model = small_model()

    class Flawed(GatedMeanKernel):
        def forward(self, ids: I32, offsets: I64, side: Side) -> F32:
            result = super().forward(ids, offsets, side)
            result[WRONG[where](np.diff(offsets), side)] += 1
            return result

    assert choose.check_error(GatedMeanKernel(model.weights), model) < 1e-3
    monkeypatch.setattr("encoder.readers.gated_mean.GatedMeanKernel", Flawed)
    assert choose.open_backend(model, "cpu", 1)[1] == "torch"


def test_the_model_that_ships_is_checked_on_posts_articles_and_long_texts() -> None:
    model = encoder.load("default", device="cpu").model
    assert np.diff(model.article_check.offsets).tolist() == [1, 200, 0, 1024]
    for check in (model.check, model.article_check):
        for row, (start, stop) in enumerate(pairwise(check.offsets[-3:].tolist())):
            exact = reference(model.weights, check.ids[start:stop].tolist(), check.side)
            actual = check.vectors[len(check.vectors) - 2 + row]
            np.testing.assert_allclose(actual, exact, rtol=1e-4, atol=1e-6)


def test_on_a_cpu_no_torch_is_imported(tmp_path: Path) -> None:
    write_model(tmp_path / "m", small_model())
    code = (
        "import sys, encoder; e = encoder.load(sys.argv[1], device='cpu');"
        "A = e.articles(['storm']); e.explain('storm', A, 0); e.thresholds(A, .1);"
        "assert e.path == 'kernel' and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "m")], check=True)


SKIM = """
import sys, encoder
posts = encoder.load("default", device="cpu", threads=1).skim(sys.argv[1:])
sys.stdout.buffer.write(posts.dense.tobytes() + posts.lexical.weights.tobytes())
"""


@pytest.mark.slow
def test_posts_are_skimmed_to_the_same_bits_with_another_processors_instructions(
    tmp_path: Path,
) -> None:
    texts = background(200)
    plain = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NEWSIFT_CACHE": str(tmp_path)}
    program = [sys.executable, "-c", SKIM, *texts]
    done = subprocess.run(program, env=os.environ | plain, capture_output=True, check=True)
    posts = encoder.load("default", device="cpu", threads=1).skim(texts)
    assert done.stdout == posts.dense.tobytes() + posts.lexical.weights.tobytes()


def test_without_torch_its_path_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model()
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(choose, "_kernel", lambda *_: None)
    with pytest.raises(DeviceError, match="cpu needs PyTorch, which is not installed"):
        choose.open_backend(model, "cpu", 1)


@pytest.mark.parametrize("gpu", [False, True])
def test_auto_takes_the_kernel_also_beside_a_gpu(
    monkeypatch: pytest.MonkeyPatch, gpu: bool
) -> None:
    monkeypatch.setattr(choose, "cuda_present", lambda: gpu)
    assert choose.open_backend(small_model(), "auto", 1)[1] == "kernel"


def test_a_gpu_that_torch_cannot_use_leaves_a_star_to_the_cpu(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = small_model(star="paper")
    monkeypatch.setattr(choose, "cuda_present", lambda: True)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with caplog.at_level(logging.WARNING, "newsift.encoder"):
        assert choose.open_backend(model, "auto", 1)[1] == "torch"
    assert len(caplog.records) == 1
    assert "the GPU is not used, the CPU runs instead" in caplog.text
    with pytest.raises(DeviceError):
        choose.open_backend(model, "cuda", 1)


@pytest.mark.parametrize("visible", ["", "-1"])
def test_a_hidden_gpu_is_not_present(monkeypatch: pytest.MonkeyPatch, visible: str) -> None:
    class Driver:
        def nvmlInit_v2(self) -> int:
            return 0

        def nvmlDeviceGetCount_v2(self, count: Any) -> int:
            count._obj.value = 1
            return 0

        def nvmlShutdown(self) -> None: ...

    monkeypatch.setattr("ctypes.CDLL", lambda _: Driver())
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert choose.cuda_present()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert not choose.cuda_present()
