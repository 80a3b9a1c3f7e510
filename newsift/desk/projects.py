"""The projects in one folder, the one that is open, and files that wait to become one."""

import os
import re
import secrets
import shutil
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock, Thread

from msgspec import Struct

from encoder.errors import InputError
from newsift.desk.api import MAX_FILE_NAME_CHARS, clean_file_name
from newsift.desk.changes import PARTS, Changes
from newsift.desk.project import (
    DESCRIPTION_FILE,
    LABELS_FILE,
    SEEDS_FILE,
    UPLOADS_FOLDER,
    delete_project,
    describe,
    locked,
    read_description,
)
from newsift.desk.session import MAX_CALLS, Desk
from newsift.desk.threads import DaemonExecutor, failure_text
from newsift.files.preview import FilePreview, preview
from newsift.files.tables import FileOptions
from worker.config.limits import Limits
from worker.posts.times import rfc3339
from worker.text import shorten

MAX_UPLOAD_BYTES = 2**29
MAX_UPLOADS = 8  # that wait; beyond it the one that was used longest ago is deleted
MAX_NAME_BYTES = 80
PREVIEW_S = 5.0
UPLOAD_PREFIX = ".newsift-upload-"
OPTION_REMEDY = re.compile(r"; [^;]*--[a-z][^;]*$")  # at the command line
PAGE_REMEDY = (
    "; choose another file, or give its name the ending of what it is: .csv for a table with a "
    "header, .jsonl for an object on each line, .txt for a post on each line"
)
RunProject = Callable[[Path, Event, Callable[[Desk], None]], None]


class ProjectRow(Struct):
    name: str
    files: list[str] = []  # their names
    uploaded: int = 0  # bytes of those that came from the browser
    seeds: int = 0  # profiles included
    labels: int = 0
    changed_at: str = ""
    problem: str = ""  # why it cannot be opened


class Upload:
    def __init__(self, folder: Path, name: str, size: int) -> None:
        """A file that comes in pieces, into a folder that nobody else can read."""
        self.folder, self.size, self.received = folder, size, 0
        self.file = folder / UPLOADS_FOLDER / name
        self.file.parent.mkdir(mode=0o700, parents=True)
        folder.chmod(0o700)

    def add(self, content: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        with open(self.file, "ab", opener=lambda name, _: os.open(name, flags, 0o600)) as out:
            out.write(content)
        self.received += len(content)

    def delete(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class OpenProject:
    """`desk` is there once it is open; `error` is the reason why it ended."""

    def __init__(self, folder: Path) -> None:
        self.name, self.folder, self.end = folder.name, folder, Event()
        self.desk: Desk | None = None
        self.error = ""
        self.thread: Thread | None = None

    def close(self) -> None:
        """Returns once all is saved."""
        self.end.set()
        if self.thread is not None:
            self.thread.join()


class Projects:
    """One process at a time has the folder, which is made if it is missing."""

    read_only = False

    def __init__(self, folder: Path, limits: Limits, run: RunProject) -> None:
        """`run` shows a project until the event is set."""
        self.folder, self._limits, self._run_project = folder, limits, run
        self.changes, self.executor = Changes(), DaemonExecutor(MAX_CALLS)
        self._lock = Lock()  # of the uploads, and of the names in the folder
        self._switch = Lock()  # one project is opened or closed at a time
        self._uploads: OrderedDict[str, Upload] = OrderedDict()
        self._open: OpenProject | None = None

    def start(self) -> None:
        for left in self.folder.glob(f"{UPLOAD_PREFIX}*"):
            shutil.rmtree(left, ignore_errors=True)

    def stop(self) -> None:
        self.close()
        for upload in self._uploads.values():
            upload.delete()

    @property
    def desk(self) -> Desk:
        if (opened := self._open) is None or opened.desk is None:
            raise InputError("no project is open; open one under Projects")
        return opened.desk

    @property
    def state(self) -> dict[str, str | None]:
        """The name of the project that is open, that is being opened, and what went wrong."""
        state: dict[str, str | None] = {"project": None, "opening": None, "error": ""}
        if (opened := self._open) is None:
            return state
        if opened.error:
            return state | {"error": opened.error}
        return state | {"opening" if opened.desk is None else "project": opened.name}

    def rows(self) -> list[ProjectRow]:
        folders = sorted(self.folder.iterdir(), key=lambda each: each.name.casefold())
        return [_row(folder) for folder in folders if _is_project(folder)]

    def begin_upload(self, name: str, size: int) -> str:
        """The name by which the page knows it."""
        clean, name = clean_file_name(name), shorten(name, MAX_FILE_NAME_CHARS)
        if not size:
            raise InputError(f"{name}: is empty; choose another file")
        if size > MAX_UPLOAD_BYTES:
            raise InputError(
                f"{name}: is larger than {MAX_UPLOAD_BYTES >> 20} MiB; "
                "newsift desk --file FILE --project DIR has no such limit"
            )
        token = secrets.token_hex(8)
        with self._lock, _writing(name):
            self._uploads[token] = Upload(
                self.folder / f"{UPLOAD_PREFIX}{token}", clean or "posts", size
            )
            while len(self._uploads) > MAX_UPLOADS:
                self._uploads.popitem(last=False)[1].delete()
        return token

    def add_to_upload(self, token: str, offset: int, content: bytes) -> None:
        with self._lock:
            upload = self._upload(token)
            if offset != upload.received or offset + len(content) > upload.size:
                raise InputError(f"{upload.file.name}: its pieces do not fit; choose it again")
            with _writing(upload.file.name):
                upload.add(content)

    def drop_upload(self, token: str) -> None:
        with self._lock:
            if (upload := self._uploads.pop(token, None)) is not None:
                upload.delete()

    def preview(self, token: str, options: FileOptions, seconds: float = PREVIEW_S) -> FilePreview:
        with self._lock:
            upload = self._upload(token)
        if upload.received < upload.size:
            raise InputError(f"{upload.file.name}: is still being sent; wait until it is here")
        try:
            return preview(upload.file, options, self._limits, seconds)
        except InputError as error:
            message = str(error).replace(str(upload.file), upload.file.name)
            raise InputError(OPTION_REMEDY.sub(PAGE_REMEDY, message)) from error

    def create(self, token: str, name: str, options: FileOptions) -> str:
        """Makes a project of the upload, and opens it; returns its name."""
        name = self._free_name(name)
        shown = self.preview(token, options, 0.0)
        if not shown.names_text:
            raise InputError("text: choose the column that holds the texts")
        if not shown.posts:
            raise InputError(f"none of its first {shown.read:,} rows is a post; choose another")
        with self._lock:
            upload, name = self._upload(token), self._free_name(name)
            with _writing(name):
                describe(upload.folder, [upload.file], options)
                upload.folder.rename(self.folder / name)
            del self._uploads[token]
        self.open(name)
        return name

    def open(self, name: str) -> None:
        """Returns before it is open; another one that is open is closed first."""
        opened = OpenProject(self._folder_of(name))
        with self._switch:
            previous = self._open
            if previous is not None and previous.name == name and not previous.error:
                return
            self._open = opened
            opened.thread = Thread(
                target=self._run, args=(opened, previous), name="desk-project", daemon=True
            )
            opened.thread.start()
        self.changes.notify("projects")

    def close(self) -> None:
        with self._switch:
            opened, self._open = self._open, None
            if opened is not None:
                opened.close()
        self.changes.notify(*PARTS)

    def rename(self, name: str, new: str) -> str:
        folder = self._closed_folder(name)
        with locked(folder), self._lock, _writing(new):
            new = self._free_name(new)
            folder.rename(self.folder / new)
        self.changes.notify("projects")
        return new

    def delete(self, name: str) -> list[str]:
        """Returns the names of files that are not newsift's, and stay."""
        folder = self._closed_folder(name)
        with self._lock, _writing(name):
            left = delete_project(folder)
        self.changes.notify("projects")
        return left

    def _run(self, opened: OpenProject, previous: OpenProject | None) -> None:
        def show(desk: Desk) -> None:
            opened.desk = desk
            self.changes.notify(*PARTS)

        try:
            if previous is not None:
                previous.close()
            if not opened.end.is_set():
                self._run_project(opened.folder, opened.end, show)
        except Exception as error:  # noqa: BLE001 - the page shows it
            opened.error = failure_text(error, f"{opened.name} is closed")
            opened.error = opened.error.removeprefix("--project: ")
        opened.desk = None
        self.changes.notify(*PARTS)

    def _upload(self, token: str) -> Upload:
        if token not in self._uploads:
            raise InputError("the file is not here any more; choose it again")
        self._uploads.move_to_end(token)
        return self._uploads[token]

    def _free_name(self, name: str) -> str:
        name = _checked_name(name)
        if os.path.lexists(self.folder / name):
            raise InputError(f"name: {name} is taken; give another")
        return name

    def _folder_of(self, name: str) -> Path:
        folder = self.folder / _checked_name(name)
        if not _is_project(folder):
            raise InputError(f"{name}: there is no such project any more; choose another")
        return folder

    def _closed_folder(self, name: str) -> Path:
        folder, opened = self._folder_of(name), self._open
        if opened is not None and opened.name == name and not opened.error:
            raise InputError(f"{name}: is open; close it first")
        return folder


@contextmanager
def _writing(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{name}: cannot be stored ({error.strerror}); make room") from error


def _checked_name(name: str) -> str:
    """It becomes the name of a folder in that of the projects, and of no other place."""
    name = name.strip()
    is_path = any(sign in name for sign in "/\\") or name.startswith(".")
    if not name or is_path or not name.isprintable() or len(name.encode()) > MAX_NAME_BYTES:
        raise InputError(
            f"name: give 1 to {MAX_NAME_BYTES} letters, without / and \\, and no dot in front"
        )
    return name


def _is_project(folder: Path) -> bool:
    is_own = folder.is_dir() and not folder.is_symlink() and not folder.name.startswith(".")
    return is_own and (folder / DESCRIPTION_FILE).is_file()


def _row(folder: Path) -> ProjectRow:
    row = ProjectRow(folder.name)
    try:
        names = read_description(folder).files
        row.files = [Path(name).name for name in names]
        uploads = [folder / name for name in names if not Path(name).is_absolute()]
        row.uploaded = sum(file.stat().st_size for file in uploads)
        row.seeds, row.labels = (_count_lines(folder / n) for n in (SEEDS_FILE, LABELS_FILE))
        times = (file.stat().st_mtime for file in folder.iterdir())
        row.changed_at = rfc3339(int(max(times) * 1000))
    except (OSError, InputError) as error:
        row.problem = str(error).removeprefix("--project: ")
    return row


def _count_lines(file: Path) -> int:
    if not file.exists():
        return 0
    with file.open("rb") as lines:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: lines.read(2**20), b""))
