"""Which teacher a kind of tokens goes with, and where its vectors are kept."""

from pathlib import Path

from encoder.support.files import cache_root
from encoder.text.vocabulary import Scripts
from train.teacher.chunks import WIDTH, teacher_folder
from train.teacher.minilm import Read, Teacher
from train.teacher.store import VectorStore
from train.teacher.use import WIDTH as USE_WIDTH
from train.teacher.use import Use


def open_store(kind: str, cache: Path | None) -> VectorStore:
    """The vectors of the teacher of this kind of tokens."""
    if kind == Scripts.kind:
        return VectorStore(cache or cache_root() / "teacher-use", USE_WIDTH)
    return VectorStore(teacher_folder(cache), WIDTH)


def reader(kind: str) -> Read:
    """What makes that teacher's vectors of whole texts."""
    return Use().texts if kind == Scripts.kind else Teacher().texts
