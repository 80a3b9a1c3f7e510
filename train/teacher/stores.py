"""The teachers' vectors of texts, as a recipe needs them."""

from pathlib import Path

from train.teacher.minilm import WIDTH, teacher_folder
from train.teacher.store import (
    TeacherPair,
    TextVectors,
    VectorStore,
)
from train.teacher.wordllama import WORDLLAMA_WIDTH


def open_store(cache: Path | None) -> VectorStore:
    """Open MiniLM's vectors of texts."""
    return VectorStore(teacher_folder(cache), WIDTH)


def open_wordllama(store: VectorStore) -> VectorStore:
    """Open WordLlama's vectors, which are inside MiniLM's folder."""
    return VectorStore(store.folder / "wordllama", WORDLLAMA_WIDTH)


def open_vectors(wordllama: float, cache: Path | None) -> TextVectors:
    """Open MiniLM's vectors, beside WordLlama's if they count."""
    store = open_store(cache)
    return TeacherPair(store, open_wordllama(store), wordllama) if wordllama else store
