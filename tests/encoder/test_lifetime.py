import gc
import os
import pickle
import signal
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.compiler_lock import global_compiler_lock

import encoder
from encoder.encoder import Encoder
from encoder.errors import InputError, ModelError
from encoder.model_directory import write_model
from encoder.readers import choose
from encoder.text.fast_wordpiece import LEXICONS
from tests.encoder.small_model import TOPICS, small_model

MANY = list(TOPICS) * 3000  # enough letters for two threads


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_model(tmp_path / "m", small_model())
    return tmp_path / "m"


def in_a_child(work: Callable[[], object]) -> int:
    """How a forked child ended that did this, within ten seconds."""
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        try:
            work()
        except BaseException:  # noqa: BLE001 - nothing of pytest may run in the child
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_embeds_as_its_parent_does(folder: Path) -> None:
    with encoder.load(folder, device="cpu", threads=2) as enc:
        before, _ = enc.posts(MANY).dense, enc.explain(TOPICS[0])  # compiled before the fork

        def again() -> None:
            np.testing.assert_array_equal(enc.posts(MANY).dense, before)
            enc.thresholds(enc.articles(TOPICS), 0.01)
            enc.explain(TOPICS[0])

        assert in_a_child(again) == 0
        np.testing.assert_array_equal(enc.posts(MANY).dense, before)


def test_a_fork_while_another_thread_compiles_waits_for_it() -> None:
    begun = threading.Event()

    def compiling() -> None:
        with global_compiler_lock:
            begun.set()
            time.sleep(0.3)

    def ours(x: int) -> int:
        return x + 1

    thread = threading.Thread(target=compiling)
    thread.start()
    begun.wait()
    assert in_a_child(lambda: numba.njit(ours)(1)) == 0
    thread.join()


def test_torch_works_in_a_forked_child_too(folder: Path) -> None:
    model = encoder.load(folder, device="cpu", threads=1).model
    backend = choose._torch(model, "cpu", 2)
    check = model.check
    ids = np.tile(check.ids, 200)
    offsets = np.concatenate([[0], np.cumsum(np.tile(np.diff(check.offsets), 200))])
    before = backend.forward(ids, offsets, check.side)

    def again() -> None:
        result = backend.forward(ids, offsets, check.side)
        np.testing.assert_allclose(result, before, atol=1e-4)

    assert in_a_child(again) == 0


def test_a_closed_encoder_has_no_threads_and_refuses_in_one_line(folder: Path) -> None:
    before = threading.active_count()
    with encoder.load(folder, device="cpu", threads=2) as enc:
        A = enc.articles(TOPICS)
        enc.posts(MANY)
        assert threading.active_count() > before
    assert threading.active_count() == before
    assert (enc.dim, len(enc.digest), enc.path) == (12, 64, "kernel")
    for use in (
        lambda: enc.posts([]), lambda: enc.articles(TOPICS), lambda: enc.thresholds(A, 0.01),
        lambda: enc.explain("storm"), lambda: enc.tokenize("storm"),
        lambda: enc.explain("storm", A, 0), lambda: enc.contributions(["storm"], A, [(0, 0)]),
    ):  # fmt: skip
        with pytest.raises(InputError, match="closed; load the model again"):
            use()
    enc.close()


def test_a_pickled_encoder_is_loaded_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    enc = encoder.load("m", device="cpu", threads=2)
    packed = pickle.dumps(enc)
    assert len(packed) < 2000
    monkeypatch.chdir("/")
    again: Encoder = pickle.loads(packed)
    assert (again.digest, again.path, again.threads) == (enc.digest, enc.path, 2)
    np.testing.assert_array_equal(again.posts(TOPICS).dense, enc.posts(TOPICS).dense)


def test_a_pickled_encoder_is_that_model_or_none(folder: Path) -> None:
    packed = pickle.dumps(encoder.load(folder, device="cpu", threads=1))
    write_model(folder, small_model(seed=4))
    with pytest.raises(ModelError, match="was pickled; put that one back"):
        pickle.loads(packed)
    made = encoder.load(folder, device="cpu", threads=1)
    with pytest.raises(InputError, match="only one that `load` made"):
        pickle.dumps(Encoder(made.model, choose.open_readers(made.model, "cpu", 1)))


def test_a_vocabulary_goes_with_its_last_encoder(folder: Path) -> None:
    enc = encoder.load(folder, device="cpu", threads=1)
    gone, held = weakref.ref(enc.model.vocabulary), len(LEXICONS)
    del enc
    gc.collect()
    assert gone() is None
    assert len(LEXICONS) < held
