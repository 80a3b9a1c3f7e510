import ast
import logging
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from encoder.support import jit

ROOT = Path(__file__).parents[3]
PROGRAM = """
import logging, os, sys
os.umask(0)
sys.path.insert(0, {root!r})
import numba
from encoder.support.jit import jit

@jit()
def double(x):
    return 2 * x

@numba.njit(cache=True)
def triple(x):
    return 3 * x

print(double(4), triple(4), double.stats.cache_hits.total(), triple.stats.cache_path)
"""


class Run:
    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache"
        self.file = folder / "program.py"
        self.file.write_text(PROGRAM.format(root=str(ROOT)))

    def __call__(self, *limit: str) -> tuple[str, str]:
        env = {"NEWSIFT_CACHE": str(self.cache), "HOME": str(self.cache.parent / "home")}
        done = subprocess.run(
            [*limit, sys.executable, str(self.file)],
            env=env, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout, done.stderr

    def entry(self, ending: str) -> Path:
        (file,) = self.cache.rglob(f"*double*{ending}")
        return file


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def hits(message: tuple[str, str]) -> int:
    out, _ = message
    eight, twelve, result, _ = out.split()
    assert (eight, twelve) == ("8", "12")
    return int(result)


def test_the_cache_is_private(run: Run) -> None:
    out, err = run()
    assert err == ""
    assert hits((out, err)) == 0
    assert out.split()[3] == str(run.file.parent / "__pycache__"), "the place of others is theirs"
    for path in (run.cache, *run.cache.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path
    assert hits(run()) == 1


class Trap:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.mark),)


def open_parent(run: Run) -> None:
    outer = run.cache.parent / "open"
    outer.mkdir()
    run.cache.rename(outer / "cache")
    run.cache = outer / "cache"
    outer.chmod(0o777)


@pytest.mark.slow
@pytest.mark.parametrize(
    "opened", [lambda run: run.entry(".nbi").chmod(0o666), open_parent], ids=["file", "parent"]
)
def test_code_that_others_may_have_planted_is_not_run(
    run: Run, opened: Callable[[Run], None]
) -> None:
    run()
    mark = run.cache.parent / "mark"
    run.entry(".nbi").write_bytes(pickle.dumps(Trap(mark)))
    opened(run)
    out, err = run()
    assert hits((out, err)) == 0
    assert not mark.exists()
    assert err.count("\n") == 1
    assert "every start compiles; name a folder of your own in NEWSIFT_CACHE" in err


@pytest.mark.slow
def test_a_read_only_cache_is_used(run: Run) -> None:
    run()
    for path in (run.cache, *run.cache.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)
    assert hits(run()) == 1
    for path in (run.cache, *run.cache.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)


def test_what_cannot_be_stored_is_logged(run: Run) -> None:
    run.file.write_text(run.file.read_text().replace("cache=True", ""))  # numba's own would fail
    run()
    run.entry(".nbi").write_bytes(b"")  # what cannot be replaced either
    out, err = run("prlimit", "--fsize=0")
    assert hits((out, err)) == 0
    assert err.count("\n") == 1
    assert str(run.cache) in err


@pytest.mark.slow
def test_without_a_folder_or_a_sound_entry_code_is_compiled(run: Run) -> None:
    run.cache.write_text("a file")
    assert hits(run()) == 0
    run.cache.unlink()
    run()
    run.entry(".nbi").write_bytes(b"\x80\x04nonsense")
    assert hits(run()) == 0


HOLDER = """
import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_SH)
print(flush=True)
sys.stdin.read()
"""


def test_old_versions_are_removed_unless_in_use(tmp_path: Path) -> None:
    names = [f"jit-{n:016x}" for n in range(8)]
    strangers = ["jit-notes", "seeds", f"jit-{9:015x}"]
    for age, name in enumerate(names + strangers):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "inner" / "file").write_text("code")
        then = time.time() - jit.UNUSED_S * (age + 0.5)
        os.utime(tmp_path / name, (then, then))
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / f"jit-{99:016x}").symlink_to(target)
    command = [sys.executable, "-c", HOLDER, str(tmp_path / names[7])]
    held = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with held:
        assert held.stdout is not None
        held.stdout.readline()
        jit._remove_old(tmp_path)
        held.communicate()
    remaining = {path.name for path in tmp_path.iterdir()}
    newest = {*names[: jit.NEWEST], names[7]}
    assert remaining == newest | {*strangers, f"jit-{99:016x}", "target"}


def test_old_versions_that_cannot_be_removed_do_not_disable_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process that starts may remove them, too."""

    def remove(root: Path) -> None:
        (root / "jit-0123456789abcdef").stat()

    monkeypatch.setenv("NEWSIFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jit, "_remove_old", remove)
    assert jit.open_folder() is not None


def compiles(file: Path) -> bool:
    result = ast.walk(ast.parse(file.read_text()))
    functions = [node for node in result if isinstance(node, ast.FunctionDef)]
    marks = [mark for function in functions for mark in function.decorator_list]
    return any(isinstance(m, ast.Call) and getattr(m.func, "id", "") == "jit" for m in marks)


def test_each_edit_of_compiled_code_makes_another_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "encoder"
    shutil.copytree(ROOT / "encoder", here, ignore=shutil.ignore_patterns("models", "__pycache__"))
    monkeypatch.setattr(jit, "ROOT", tmp_path)
    before = jit.sources_digest()
    assert before == jit.sources_digest()

    def counts(file: Path) -> bool:
        content = file.read_bytes()
        file.write_bytes(content + b"\n# edited")
        changed = jit.sources_digest() != before
        file.write_bytes(content)
        return changed

    compiled = [file for file in tmp_path.rglob("*.py") if compiles(file)]
    assert len(compiled) > 5
    assert all(map(counts, compiled))
    assert all(counts(here / f"{name}.py") for name in (
        "model/config", "support/jit", "readers/validate", "text/split",
    ))  # fmt: skip
    assert not counts(here / "encoder.py")
    assert not counts(here / "readers" / "torch_backend.py")


def test_the_first_start_alone_is_announced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text").mkdir()
    monkeypatch.setattr(jit, "FOLDER", tmp_path)
    with caplog.at_level(logging.INFO, "newsift.encoder"):
        jit.announce_first_start()
        assert len(caplog.records) == 1
        (tmp_path / "text" / "scan.nbi").write_text("code")
        jit.announce_first_start()
        monkeypatch.setattr(jit, "FOLDER", None)
        jit.announce_first_start()
    assert len(caplog.records) == 1


def save_all(folder: Path, process: int, together: Any) -> None:
    for number in range(100):
        together.wait()
        files = jit.Files(str(folder), f"f{number}", 0)
        files.save(process, f"code {process}")


def test_processes_that_store_at_once_keep_each_entry(tmp_path: Path) -> None:
    """numba numbers the data files by an index that another process may just replace."""
    context = get_context("fork")
    together = context.Barrier(3)
    processes = [context.Process(target=save_all, args=(tmp_path, n, together)) for n in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    for number in range(100):
        files = jit.Files(str(tmp_path), f"f{number}", 0)
        assert [files.load(n) for n in range(3)] == [f"code {n}" for n in range(3)]
