"""Compiled functions: without the GIL, and with numba's cache in a private folder.

numba unpickles the cache, which can run code. So a folder that another user owns or can write to is
not used, and every start compiles. Functions of other packages are not affected.
"""

import errno
import fcntl
import hashlib
import inspect
import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

import numba
from numba.core import caching
from numba.core.compiler_lock import global_compiler_lock

from encoder.errors import InputError
from encoder.support.files import cache_root, private_folder, refuse_public_content, replacing

NAME = re.compile(r"jit-[0-9a-f]{16}")
ROOT = Path(__file__).parents[2]
IMPORT = re.compile(r"^[ \t]*from (encoder[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
COMPILES = re.compile(r"^from encoder\.support\.jit import .*\bjit$", re.MULTILINE)
NEWEST = 4
UNUSED_S = 24 * 3600
FULL = {errno.ENOSPC, errno.EDQUOT}
log = logging.getLogger("newsift.encoder")

# A child forked while another thread compiles would find numba's lock held for ever.
os.register_at_fork(
    before=global_compiler_lock.acquire,
    after_in_parent=global_compiler_lock.release,
    after_in_child=global_compiler_lock.release,
)


def jit(*, inline: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Like numba.njit, without the GIL and with a cache; sums keep their order on every CPU."""
    options: dict[str, Any] = {"nogil": True, "boundscheck": False, "error_model": "numpy"}
    if inline:
        options["inline"] = "always"

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**options)(function)
        if FOLDER is not None and dispatcher is not function:
            dispatcher._cache = FunctionCache(function)
        return dispatcher

    return decorate


def sources_digest() -> str:
    """A digest of all compiled sources: numba does not notice a change in an imported function."""
    files = {_module(path): path for path in (ROOT / "encoder").rglob("*.py")}
    texts = {module: file.read_bytes() for module, file in files.items()}
    queue = [module for module, text in texts.items() if COMPILES.search(text.decode())]
    modules: set[str] = set()
    while queue:
        module = queue.pop()
        if module in texts and module not in modules:
            modules.add(module)
            queue += _imports(texts[module].decode())
    digest = hashlib.sha256()
    for module in sorted(modules):
        digest.update(hashlib.sha256(texts[module]).digest())
    return digest.hexdigest()[:16]


def _module(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _imports(text: str) -> Iterator[str]:
    """Yield the modules that a source imports, and module.name for each imported name."""
    for module, names in IMPORT.findall(text):
        yield module
        yield from (f"{module}.{name}" for name in re.findall(r"\w+", names))


def open_folder() -> Path | None:
    """Create and lock the folder; None if it cannot be created or is not private."""
    try:
        root = private_folder(cache_root())
        folder = root / f"jit-{sources_digest()}"
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            with suppress(OSError):  # another process removes them, too
                _remove_old(root)
        private_folder(folder)
        refuse_public_content(folder)
        _mark_used(folder)
    except InputError as error:
        log.warning(
            "%s: compiled code is not cached there, so every start compiles;"
            " name a folder of your own in NEWSIFT_CACHE",
            error,
        )
        return None
    except (OSError, RuntimeError) as error:
        if isinstance(error, OSError) and error.errno in FULL:
            _warn_unstored(str(cache_root()), error.strerror)
        return None
    return folder


@cache
def _warn_unstored(folder: str, reason: str) -> None:
    log.warning(
        "%s: compiled code cannot be stored there (%s), so every start compiles; make room, or"
        " name another folder in NEWSIFT_CACHE",
        *(folder, reason),
    )


def _mark_used(folder: Path) -> None:
    """Mark the folder as in use: update its date, and lock it until this process ends."""
    with suppress(OSError):
        os.utime(folder)
        fcntl.flock(os.open(folder, os.O_RDONLY | os.O_CLOEXEC), fcntl.LOCK_SH | fcntl.LOCK_NB)


def _remove_old(root: Path) -> None:
    """Remove folders of other versions that were unused for a day, except the newest."""
    paths = (path for path in root.iterdir() if NAME.fullmatch(path.name))
    by_age = sorted(
        ((path.stat().st_mtime, path) for path in paths if not path.is_symlink()), reverse=True
    )
    for used_at, path in by_age[NEWEST:]:
        if path.stat().st_uid != os.geteuid() or time.time() - used_at < UNUSED_S:
            continue
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path)
            finally:
                os.close(handle)


FOLDER = open_folder()


def announce_first_start() -> None:
    """Announce a slow first start, in the log, or on a terminal if it shows no log."""
    if FOLDER is None or next(FOLDER.glob("*/*.nbi"), None) is not None:
        return
    line = "compiling for this CPU, once for this version: some 10 s"
    if log.isEnabledFor(logging.INFO):
        log.info(line)
    elif sys.stderr.isatty():
        sys.stderr.write(f"newsift: {line}\n")


class Locator(caching.UserProvidedCacheLocator):  # type: ignore[misc]  # numba has no types
    """Stores a function's code in our folder, whatever numba's settings are."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        self._py_file, self._lineno = py_file, py_func.__code__.co_firstlineno
        self._cache_path = str(Path(FOLDER or "") / self.get_suitable_cache_subpath(py_file))

    def ensure_cache_path(self) -> None:
        Path(self._cache_path).mkdir(mode=0o700, exist_ok=True)


class Content(caching.CompileResultCacheImpl):  # type: ignore[misc]  # numba has no types
    """The cache entries of a function, with numba's file names."""

    def __init__(self, py_func: Any) -> None:
        file = inspect.getfile(py_func)
        self._lineno = py_func.__code__.co_firstlineno
        self._locator = Locator(py_func, file)
        name = f"{Path(file).stem}.{py_func.__qualname__}"
        self._filename_base = self.get_filename_base(name, getattr(sys, "abiflags", ""))


class Files(caching.IndexDataCacheFile):  # type: ignore[misc]  # numba has no types
    """The cache files of a function, writable by this user only.

    numba numbers the data files by the index: without a lock two processes that store at once take
    the same number, and one signature would run the other's code.
    """

    def save(self, key: Any, data: Any) -> None:
        folder = os.open(self._cache_path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with suppress(OSError):  # some network file systems have no locks
                fcntl.flock(folder, fcntl.LOCK_EX)
            super().save(key, data)
        finally:
            os.close(folder)

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[IO[bytes]]:
        with replacing(Path(filepath), 0o600, durable=False) as file:
            yield file


class FunctionCache(caching.FunctionCache):  # type: ignore[misc]  # numba has no types
    """The cache of one function; code that cannot be read or written is compiled again."""

    _impl_class = Content

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = Files(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # noqa: BLE001 - a damaged pickle can raise anything
            log.info("%s: is compiled again (%s)", self._name, error)
            with _log_store_errors():
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with _log_store_errors():
            super().save_overload(sig, data)


@contextmanager
def _log_store_errors() -> Iterator[None]:
    try:
        yield
    except (OSError, InputError) as error:
        cause = error.__cause__ or error
        _warn_unstored(str(FOLDER), str(getattr(cause, "strerror", None) or cause))
    except Exception as error:  # noqa: BLE001 - a damaged index that cannot be replaced
        log.info("%s: not stored (%s)", FOLDER, error)
