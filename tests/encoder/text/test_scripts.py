"""Words of many scripts: runs, pairs, folds and stems, beside a slow reading sign by sign."""

import unicodedata

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from encoder.model.config import AstConfig, Side
from encoder.score.lexical import NO_SLOT, SLOTS, Idf, slot
from encoder.text.scripts import ScriptPart, fold_scripts, pairs, runs, split_scripts, stem
from encoder.text.split import split_words
from encoder.text.tokenizer import Tokenizer
from encoder.text.vocabulary import Scripts, WordPiece

LINES = [
    "[UNK]", "地震", "地", "震", "の", "地震の", "the", "##s", "flood", "…", "แผ่น", "ดิน",
    "наводнение",
]  # fmt: skip
SCRIPTS = Scripts.from_lines(LINES)
MIXED = st.text(
    st.sampled_from("地震発の々がガﾞマルวนดิ่แ브레 닉ة ال بаяbs.,#@…'340\u0301\u3099"), max_size=24
)


def script(sign: str) -> str:
    """Which of the scripts without spaces a sign belongs to, by its name; or none."""
    name = unicodedata.name(sign, "")
    if sign == "々" or name.startswith("CJK UNIFIED"):
        return "han"
    for of in ("HIRAGANA", "KATAKANA", "HANGUL SYLLABLE", "THAI CHARACTER"):
        if name.startswith(of):
            return of
    return ""


@given(st.text(st.sampled_from("地震発々のがマル브레닉abя1"), max_size=12))
def test_runs_are_what_a_walk_sign_by_sign_finds(word: str) -> None:
    result: list[str] = []
    last = None
    for sign in word:
        if result and script(sign) == last:
            result[-1] += sign
        else:
            result.append(sign)
        last = script(sign)
    assert runs(word) == (result or [word])


@given(MIXED)
def test_no_letter_is_lost_and_none_is_made(text: str) -> None:
    read = "".join(split_scripts(text))
    assert read == "".join("".join(split_words(text)))


@given(st.text(st.characters(max_codepoint=126)))
def test_plain_text_is_read_as_by_the_default_vocabulary(text: str) -> None:
    assert SCRIPTS.split(text) == split_words(text)
    plain = WordPiece.from_lines(LINES)
    for word in split_words(text):
        assert SCRIPTS.pieces(word) == plain.pieces(word)


@given(MIXED)
def test_the_compiled_reading_says_the_same_as_the_words_one_by_one(text: str) -> None:
    idf = Idf(np.ones(SLOTS, np.float32))
    reader = Tokenizer(SCRIPTS, idf, AstConfig())
    for side, read in ((Side.POST, reader.posts), (Side.ARTICLE, reader.articles)):
        tokens, words = read([text]), reader.words(text, side)
        assert tokens.ids.tolist() == [i for word in words for i in word.ids][:128]
        assert set(tokens.lexical.slots.tolist()) == {w.slot for w in words if w.slot != NO_SLOT}


def test_a_run_has_its_longest_pieces_and_its_pairs() -> None:
    assert SCRIPTS.split("地震の後") == [
        ScriptPart("地震", "地震", ""),
        ScriptPart("地震", "", "地震"),
        ScriptPart("の", "の", ""),
        ScriptPart("の", "", "の"),
        ScriptPart("後", "後", ""),
        ScriptPart("後", "", "後"),
    ]
    assert [SCRIPTS.pieces(word) for word in ("地震", "地震の", "後", "")] == [(1,), (5,), (0,), ()]
    assert SCRIPTS.cut("แผ่นดิน") == ["แผ่น", "ดิน"]


def test_a_sign_of_thai_is_a_consonant_with_what_stands_around_it() -> None:
    assert pairs("น้ำท่วม") == ["น้ำท่", "ท่ว", "วม"]
    assert pairs("ไป") == ["ไป"]


def test_folding_keeps_the_marks_that_are_letters() -> None:
    for word, folded in {
        "Ärger": "arger", "ガ": "ガ", "น้ำ": "น้ำ", "브레닉": "브레닉", "Й": "и", "أحمد": "احمد",
        "مدينة": "مدينه", "ΣΑΣ": "σασ",
    }.items():  # fmt: skip
        assert fold_scripts(word) == folded
        assert fold_scripts(folded) == folded


def test_a_name_has_one_slot_whatever_its_case_or_article() -> None:
    for forms in (
        ("Бренник", "Бренника", "Бреннику", "Бренником"[:-2] + "е"),
        ("مدينة", "المدينة", "والمدينة", "بالمدينة"),
    ):
        terms = {
            word if isinstance(word, str) else word.term for f in forms for word in SCRIPTS.split(f)
        }
        assert len({slot(term) for term in terms}) == 1, terms
    assert stem("flood") == "flood"
    assert stem("برينيك") == "برينيك"
