"""A project: a folder with the articles, profiles and labels of a desk without Kafka."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from encoder.errors import InputError
from encoder.support.files import exclusive, read_regular, write_atomically
from newsift.files.records import read_records, write_records
from newsift.files.tables import FileOptions
from newsift.operations.labels import LabelTopic
from newsift.operations.seed_topic import SeedTopic
from newsift.statistics.labels import Label, LabelState, Note, RefusedLabel
from worker.config import Config
from worker.errors import RunError
from worker.kafka.reading import connected
from worker.posts.times import milliseconds, utc
from worker.seeds.state import ControlRecord, ControlState

SCHEMA = "newsift.project/1"
MAX_DESCRIPTION_BYTES = 2**20
DESCRIPTION_FILE, LOCK_FILE = "project.json", ".lock"
SEEDS_FILE, LABELS_FILE = "seeds.jsonl", "labels.jsonl"
UPLOADS_FOLDER = "uploaded"  # of a file that came from the browser; others are elsewhere


class Description(msgspec.Struct, kw_only=True):
    schema: str = SCHEMA
    files: tuple[str, ...] = ()  # within the project's folder if they are uploaded, else absolute
    options: FileOptions = FileOptions()


class Project:
    """One process at a time; without a folder nothing is stored."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.description = Description() if folder is None else read_description(folder)
        self._last_save: tuple[ControlState | None, LabelState | None] = (None, None)

    @property
    def files(self) -> list[Path]:
        return [(self._folder or Path()) / name for name in self.description.files]

    def describe(self, files: Sequence[Path], options: FileOptions) -> None:
        if self._folder is not None:
            self.description = describe(self._folder, files, options)

    def restore(self, config: Config) -> None:
        """The topics are empty."""
        if self._folder is None:
            return
        with connected(config) as cluster:
            for topic, name in (
                (SeedTopic(cluster, config), SEEDS_FILE),
                (LabelTopic(cluster, config), LABELS_FILE),
            ):
                file = self._folder / name
                if file.exists() and file.stat().st_size:
                    topic.publish(read_records(file))

    def save_topics(self, config: Config) -> None:
        """Saves all records of the topics, also those that no page has shown."""
        if self._folder is not None:
            with connected(config) as cluster:
                control = SeedTopic(cluster, config).state()
                self.save(control, LabelTopic(cluster, config).state())

    def save(self, control: ControlState, labels: LabelState) -> None:
        """Saves what has changed since the last call."""
        if self._folder is None or not (control.complete and labels.complete):
            return
        if left_out := control.left_out + labels.left_out:
            raise RunError(
                f"--project: {left_out:,} records have no room, so the files stay as they were; "
                "delete articles or labels"
            )
        saved_control, saved_labels = self._last_save
        if control is not saved_control:
            write_records(self._folder / SEEDS_FILE, control.records.values())
        if labels is not saved_labels:
            records = (
                ControlRecord(key, label.value, _published_at(label))
                for key, label in labels.records
                if key
            )
            write_records(self._folder / LABELS_FILE, records)
        self._last_save = control, labels


def _published_at(label: Label | Note | RefusedLabel) -> int:
    """Milliseconds; 0 where it cannot be read."""
    return 0 if isinstance(label, RefusedLabel) else milliseconds(utc(label.at))


def describe(folder: Path, files: Sequence[Path], options: FileOptions) -> Description:
    """Writes it into the folder."""
    real, paths = folder.resolve(), [file.resolve() for file in files]
    uploads = real / UPLOADS_FOLDER
    names = (str(p.relative_to(real) if p.is_relative_to(uploads) else p) for p in paths)
    description = Description(files=tuple(names), options=options)
    write_atomically(folder / DESCRIPTION_FILE, msgspec.json.encode(description) + b"\n")
    return description


@contextmanager
def open_project(folder: Path | None) -> Iterator[Project]:
    """Creates the folder if it is missing, and locks it."""
    if folder is None:
        yield Project(None)
        return
    with locked(folder):
        yield Project(folder)


@contextmanager
def locked(folder: Path, option: str = "--project") -> Iterator[None]:
    """Creates the folder if it is missing; another desk that has it open is a refusal."""
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(exclusive(folder / LOCK_FILE))
        except BlockingIOError as error:
            raise InputError(
                f"{option}: {folder} is open in another desk; close that one, or give another"
            ) from error
        except OSError as error:
            raise InputError(
                f"{option}: {folder} cannot be written ({error.strerror}); give another folder"
            ) from error
        yield


def delete_project(folder: Path) -> list[str]:
    """Deletes what newsift has written, uploads included; returns the names of what stays."""
    with locked(folder):
        uploads = {folder / name for name in read_description(folder).files}
        for file in uploads:
            if file.parent == folder / UPLOADS_FOLDER:
                file.unlink(missing_ok=True)
        for name in (LABELS_FILE, SEEDS_FILE, DESCRIPTION_FILE, LOCK_FILE):
            (folder / name).unlink(missing_ok=True)
        for each in (folder / UPLOADS_FOLDER, folder):
            with suppress(OSError):  # it holds other files
                each.rmdir()
    return sorted(entry.name for entry in folder.iterdir()) if folder.exists() else []


def read_description(folder: Path) -> Description:
    """The default if there is none yet."""
    file = folder / DESCRIPTION_FILE
    remedy = "give another folder"
    try:
        description = msgspec.json.decode(
            read_regular(file, MAX_DESCRIPTION_BYTES), type=Description
        )
    except FileNotFoundError:
        other_files = sorted(entry.name for entry in folder.iterdir() if entry.name != LOCK_FILE)
        if other_files:
            raise InputError(
                f"--project: {folder} is not a project, it holds {other_files[0]}; {remedy}"
            ) from None
        return Description()
    except (OSError, msgspec.MsgspecError, InputError) as error:
        raise InputError(f"--project: {file} is not a project ({error}); {remedy}") from error
    if description.schema != SCHEMA:
        raise InputError(
            f"--project: {file} has the schema {description.schema!r}, and this version reads "
            f"{SCHEMA}; {remedy}"
        )
    return description
