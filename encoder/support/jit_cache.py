"""Where compiled code is kept between starts: numba's cache, in a folder that is ours alone.

numba unpickles what it finds there, which runs it. So nothing is loaded from a folder that another
user owns or can write: then every start compiles. The functions of others keep the cache they have.
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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

from numba.core import caching

from encoder.errors import InputError
from encoder.support.files import cache_root, private_folder, refuse_public_content, replacing

NAME = re.compile(r"jit-[0-9a-f]{16}")
ROOT = Path(__file__).parents[2]
COMPILED = ("encoder", "worker/simd")  # folders with functions that others compile in
IMPORT = re.compile(r"^[ \t]*from ((?:encoder|worker)[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
COMPILES = re.compile(r"^from encoder\.support\.jit import jit$", re.MULTILINE)
NEWEST = 4
UNUSED_S = 24 * 3600
FULL = {errno.ENOSPC, errno.EDQUOT}
log = logging.getLogger("newsift.encoder")


def sources_digest() -> str:
    """A digest of all that is compiled in: numba itself does not notice an edited import."""
    files = {_module(file): file for name in COMPILED for file in (ROOT / name).rglob("*.py")}
    texts = {module: file.read_bytes() for module, file in files.items()}
    waiting = [module for module, text in texts.items() if COMPILES.search(text.decode())]
    reached: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module in texts and module not in reached:
            reached.add(module)
            waiting += _imports(texts[module].decode())
    digest = hashlib.sha256()
    for module in sorted(reached):
        digest.update(hashlib.sha256(texts[module]).digest())
    return digest.hexdigest()[:16]


def _module(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _imports(text: str) -> Iterator[str]:
    """The modules that a text imports, or that hold what it imports."""
    for module, names in IMPORT.findall(text):
        yield module
        yield from (f"{module}.{name}" for name in re.findall(r"\w+", names))


def open_folder() -> Path | None:
    """The folder for compiled code; nothing where none can be made, or is ours alone."""
    try:
        root = private_folder(cache_root())
        folder = root / f"jit-{sources_digest()}"
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            _remove_old(root)
        private_folder(folder)
        refuse_public_content(folder)
        _hold(folder)
    except InputError as error:
        log.warning(
            "%s: compiled code is neither kept nor taken from there, so that every start compiles;"
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
        "%s: compiled code cannot be stored there (%s), so that every start compiles; make room, or"
        " name another folder in NEWSIFT_CACHE",
        *(folder, reason),
    )


def _hold(folder: Path) -> None:
    """Say that the folder is in use, by its date and, while this process lives, by a lock."""
    with suppress(OSError):
        os.utime(folder)
        fcntl.flock(os.open(folder, os.O_RDONLY | os.O_CLOEXEC), fcntl.LOCK_SH | fcntl.LOCK_NB)


def _remove_old(root: Path) -> None:
    """Remove the code of other versions that nobody has used for a day, but for the newest few."""
    paths = (path for path in root.iterdir() if NAME.fullmatch(path.name))
    dated = sorted(
        ((path.stat().st_mtime, path) for path in paths if not path.is_symlink()), reverse=True
    )
    for used, path in dated[NEWEST:]:
        if path.stat().st_uid != os.geteuid() or time.time() - used < UNUSED_S:
            continue
        with suppress(OSError):
            held = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path)
            finally:
                os.close(held)


FOLDER = open_folder()


def announce_first_start() -> None:
    """Say what takes so long, in the log, or on a terminal that shows no log."""
    if FOLDER is None or next(FOLDER.glob("*/*.nbi"), None) is not None:
        return
    line = "compiling for this CPU, once for this version: some 10 s"
    if log.isEnabledFor(logging.INFO):
        log.info(line)
    elif sys.stderr.isatty():
        sys.stderr.write(f"newsift: {line}\n")


class Locator(caching.UserProvidedCacheLocator):  # type: ignore[misc]  # numba has no types
    """Puts a function's code into our folder, whatever numba's own settings are."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        self._py_file, self._lineno = py_file, py_func.__code__.co_firstlineno
        self._cache_path = str(Path(FOLDER or "") / self.get_suitable_cache_subpath(py_file))

    def ensure_cache_path(self) -> None:
        """Make the folder where it is missing."""
        Path(self._cache_path).mkdir(mode=0o700, exist_ok=True)


class Content(caching.CompileResultCacheImpl):  # type: ignore[misc]  # numba has no types
    """What is kept of a function, named as numba names it."""

    def __init__(self, py_func: Any) -> None:
        file = inspect.getfile(py_func)
        self._lineno = py_func.__code__.co_firstlineno
        self._locator = Locator(py_func, file)
        name = f"{Path(file).stem}.{py_func.__qualname__}"
        self._filename_base = self.get_filename_base(name, getattr(sys, "abiflags", ""))


class Files(caching.IndexDataCacheFile):  # type: ignore[misc]  # numba has no types
    """The files of a function, which nobody else can write."""

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[IO[bytes]]:
        with replacing(Path(filepath), 0o600, durable=False) as file:
            yield file


class FunctionCache(caching.FunctionCache):  # type: ignore[misc]  # numba has no types
    """The cache of one function; what cannot be read or written there is compiled again."""

    _impl_class = Content

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = Files(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled code for a signature, if it is kept."""
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # noqa: BLE001 - a damaged pickle can raise anything
            log.info("%s: is compiled again (%s)", self._name, error)
            with _storing():
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code for a signature; where that is impossible, log it once."""
        with _storing():
            super().save_overload(sig, data)


@contextmanager
def _storing() -> Iterator[None]:
    try:
        yield
    except (OSError, InputError) as error:
        cause = error.__cause__ or error
        _warn_unstored(str(FOLDER), str(getattr(cause, "strerror", None) or cause))
    except Exception as error:  # noqa: BLE001 - an old index that is damaged, and cannot be replaced
        log.info("%s: not stored (%s)", FOLDER, error)
