"""Events that learn from files: the first pass of `newsift filter --learn`."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from encoder.errors import InputError
from worker.actions.events.event import KnownEvent, Values, events_in
from worker.actions.events.pool import Pool
from worker.actions.events.teacher import Lesson, Teacher
from worker.cli.terminal import ProgressLine, say
from worker.config import Config
from worker.files.find import found_files
from worker.files.formats.columns import FileOptions
from worker.files.posts import checked, share_read
from worker.files.read import DASH
from worker.posts.outcome import Post
from worker.visible import one_line

MADE: dict[str, Any] = {"attempts": 0}  # when and by whom is nothing of a match


@dataclass(frozen=True, slots=True)
class Textbook:
    """Files of posts that events learn from."""

    files: tuple[Path, ...]
    wanted: FileOptions

    @classmethod
    def of(
        cls, sources: tuple[Path, ...], again: bool, more: tuple[Path, ...], wanted: FileOptions
    ) -> "Textbook | None":
        """The files to learn from: those that are filtered, which are read again, and others."""
        for file in sources if again else ():
            if file == DASH or not file.is_file():
                name = "standard input" if file == DASH else str(file)
                raise InputError(
                    f"--learn reads the posts twice, and {name} can be read once; give files, or "
                    "--learn-from FILE"
                )
        more = found_files(more)
        if DASH in sources and DASH in more:
            raise InputError("--learn-from -: standard input can be read once; name a file")
        files = (*(sources if again else ()), *more)
        return cls(files, wanted) if files else None


def taught_by(textbook: Textbook, values: Values, config: Config) -> Values:
    """The records with a profile of each event that has learned from these files."""
    teacher = Teacher(config)
    events = events_in(values, teacher.seed_set(values), config.limits).values()
    learning = [event for event in events if event.seeds and not is_promised(event)]
    pools = [teacher.pool(teacher.start(event.seeds)) for event in learning]
    _read(textbook, teacher, pools)
    made: dict[bytes | None, bytes] = {}
    for event, pool in zip(learning, pools, strict=True):
        profile = teacher.taught(event, Lesson(pool), MADE)
        made[event.key] = profile.value(config.limits)
        beta, posts = profile.made["beta"], len(profile.made["posts"])
        say(f"event {one_line(event.name)}: learned from {posts} posts (β {beta:.2f})")
    return {**values, **made}


def is_promised(event: KnownEvent) -> bool:
    """Whether an event's profile has a promise, which learning would break."""
    return event.profile is not None and event.profile.promise is not None


def _read(textbook: Textbook, teacher: Teacher, pools: Iterable[Pool]) -> None:
    """Show all posts of the files to the pools."""
    inputs = checked(textbook.files, textbook.wanted, teacher.config.limits)
    progress = ProgressLine(share_read(inputs))
    for batch in chain.from_iterable(inputs):
        lines = [message for message in batch if isinstance(message.found, Post)]
        for posts, vectors in teacher.pipeline.posts_in(lines, teacher.nothing):
            for pool in pools:
                pool.add(posts, vectors)
        progress.add(len(batch), "posts read to learn from")
