"""What training starts from: vocabulary, vectors, idf and gates, counted once more the slow way."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from encoder.errors import InputError
from encoder.model.config import AstConfig, Side
from encoder.model.siamese import Siamese
from encoder.model.weights import F32
from encoder.score.lexical import SLOTS, Idf, slot
from encoder.text.tokenizer import Tokenizer, Word
from encoder.text.vocabulary import WordLevel, WordPiece
from tests.encoder.small import LINES
from tests.train import tiny
from tests.train.folders import training_folder
from train.data.corpus import Corpus, read_corpus
from train.data.readers import Pair, Passed, Story
from train.model.start import TOKENS, Start, frequent_words, idf_of, main_directions, make_start
from train.recipe import Recipe, Tokens, read_recipe
from train.run import begin, fingerprint
from train.teacher.chunks import WIDTH
from train.teacher.store import VectorStore

TEXTS = Corpus(
    ["storm Netanyahu", "Netanyahu! the river", "#Netanyahu and brexit", "2020 = 2020 Netanyahu"],
    [Story("Brexit", "brexit and the storm, the storm")],
    [],
    [Pair("a coronavirus", Story("Coronavirus", "the coronavirus of the city"))],
    ["the coronavirus of the city"],
)  # fmt: skip


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the teacher is asked for, one call after the other."""
    made: list[str] = []

    class Counted(tiny.Teacher):
        def pieces(self) -> F32:
            made.append("pieces")
            return super().pieces()

        def texts(self, given: object) -> F32:
            made.append("texts")
            return super().texts(given)  # type: ignore[arg-type]

    monkeypatch.setattr("train.model.start.Teacher", Counted)
    return made


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    return read_recipe(str(tiny.recipe(tmp_path)))


def stored(folder: Path) -> VectorStore:
    store = VectorStore(folder, WIDTH)
    every = [
        *TEXTS.posts,
        *(p.post for p in TEXTS.pairs),
        "Brexit. brexit and the storm, the storm",
    ]
    every.append("Coronavirus. the coronavirus of the city")
    store.add(every, tiny.vectors(every))
    return store


def test_frequent_words_are_those_of_several_pieces_by_how_often_they_stand() -> None:
    pieces = WordPiece.from_lines(LINES)
    assert frequent_words(TEXTS, pieces, 2) == ["netanyahu", "brexit"]  # four times, and three
    assert frequent_words(TEXTS, pieces, 50) == ["netanyahu", "brexit", "coronavirus"]
    assert frequent_words(TEXTS, pieces, 0) == []


def test_word_pieces_with_whole_words_beside_them(
    recipe: Recipe, tmp_path: Path, calls: list[str]
) -> None:
    store = stored(tmp_path / "cache")
    start = make_start(recipe, TEXTS, store)
    assert start.vocabulary.lines()[: len(LINES)] == LINES
    whole = start.vocabulary.lines()[len(LINES) :]
    assert set(whole) == {"brexit", "coronavirus", "netanyahu"}
    assert start.vocabulary.pieces("Coronavirus") == (
        LINES.index("##z") + 1 + whole.index("coronavirus"),
    )
    assert len(start.vocabulary.pieces("coronaviruses")) > 1
    assert start.directions is not None
    raw = np.concatenate([tiny.vectors([line]) for line in [*LINES, *whole]])
    raw = raw.astype(np.float16).astype(np.float32)
    raw /= np.linalg.norm(raw, axis=1, keepdims=True)
    moved = (raw - raw[: len(LINES)].mean(0)) @ start.directions.numpy()
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    assert np.allclose(start.vectors, moved, atol=1e-5)
    assert calls == ["pieces", "texts"]
    again = make_start(recipe, TEXTS, VectorStore(tmp_path / "cache", WIDTH))
    assert calls == ["pieces", "texts"], "what is kept is not asked for again"
    assert np.array_equal(again.vectors, start.vectors)
    assert len(VectorStore(tmp_path / "cache" / TOKENS, WIDTH)) == len(LINES) + 3


def having(word: str, texts: list[list[Word]]) -> int:
    return sum(word in {one.text.lower() for one in text} for text in texts)


def test_idf_counts_short_texts_and_gates_all_that_hold_a_token(
    recipe: Recipe, tmp_path: Path, calls: list[str]
) -> None:
    start = make_start(recipe, TEXTS, stored(tmp_path / "cache"))
    reader = Tokenizer(start.vocabulary, Idf(np.ones(SLOTS, np.float32)), recipe.model)
    posts = [reader.words(post, Side.POST) for post in (*TEXTS.posts, "a coronavirus")]
    sentences = [reader.words(sentence, Side.POST) for sentence in TEXTS.sentences]
    stories = [*TEXTS.articles, ("Coronavirus", "the coronavirus of the city")]
    articles = [reader.words(story, Side.ARTICLE) for story in stories]
    for word in ("storm", "brexit", "netanyahu", "the", "city"):
        idf, gate = (
            max(0.0, -math.log(having(word, texts) / len(texts) + 1e-5))
            for texts in (posts + sentences, posts + articles)
        )
        assert start.idf.table[slot(word)] == pytest.approx(idf, abs=1e-5)
        assert start.gates[start.vocabulary.pieces(word)[0]] == pytest.approx(gate, abs=1e-5)
    assert start.idf.table[slot("neverseen")] == pytest.approx(-math.log(1e-5), rel=1e-5)
    assert start.gates[LINES.index("[PAD]")] == np.float32(1e-3)


def test_a_word_that_is_common_in_its_language_weighs_as_little_as_there(
    recipe: Recipe, tmp_path: Path, calls: list[str]
) -> None:
    dutch = ["het city", "het storm", "het river", "het Netanyahu", "brexit"]
    plain = make_start(recipe, TEXTS, stored(tmp_path / "cache")).idf.table
    told = replace(TEXTS, languages={"nl": dutch})
    table = make_start(recipe, told, VectorStore(tmp_path / "cache", WIDTH)).idf.table
    assert table[slot("het")] == pytest.approx(-math.log(4 / 5 + 1e-5), rel=1e-5)
    assert plain[slot("het")] == pytest.approx(-math.log(1e-5), rel=1e-5)
    changed = set(np.flatnonzero(table != plain).tolist())
    assert changed == {slot("het")}, "what fewer than three posts hold is not counted there"


def test_the_directions_keep_what_the_texts_differ_in(tmp_path: Path) -> None:
    store = stored(tmp_path)
    found = main_directions(TEXTS, store, 7)
    assert np.allclose(found.T @ found, np.eye(7), atol=1e-5)
    seven = store.get([*TEXTS.posts, "a coronavirus"])
    unit = seven / np.linalg.norm(seven, axis=1, keepdims=True)
    assert np.allclose(np.linalg.norm(unit @ found, axis=1), 1, atol=1e-3)
    with pytest.raises(InputError, match=r"model\.dim: 400 is more than the 384"):
        main_directions(TEXTS, store, 400)


def test_words_out_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("storm 1 2 3\nThe 4 5 6\nriver 7 8 9\n")
    recipe = Recipe(
        model=AstConfig(dim=3, heads=1, head_dim=3),
        tokens=Tokens(kind="words", vectors="away.txt", most=2),
    )
    start = make_start(recipe, TEXTS, None, file)
    assert isinstance(start.vocabulary, WordLevel)
    assert start.vocabulary.lines() == ["storm", "The"]
    assert start.vectors.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert start.directions is None
    with pytest.raises(InputError, match=r"no file away\.txt; name where it lies by --vectors"):
        make_start(recipe, TEXTS, None)


def test_a_model_begins_with_these_vectors_and_its_gates_at_the_idf(
    recipe: Recipe, tmp_path: Path, calls: list[str]
) -> None:
    start = make_start(recipe, TEXTS, stored(tmp_path / "cache"))
    model = begin(recipe, start)
    assert isinstance(model, Siamese)
    weights = model.weights()
    assert np.array_equal(weights.embedding, start.vectors)
    assert weights.residual is not None
    for side in Side:
        assert np.allclose(weights.residual.gates[side], start.gates, rtol=1e-5)
    assert not weights.residual.gain.any()


def test_the_fingerprint_tells_data_apart(tmp_path: Path) -> None:
    texts = read_corpus(training_folder(tmp_path), Passed())
    vectors = np.ones((2, 3), np.float32)
    start = Start(
        WordLevel.from_lines(["a", "b"]), Idf(np.ones(SLOTS, np.float32)), vectors, vectors[0], None
    )
    other = Corpus([*texts.posts, "more"], texts.articles, texts.claims, texts.pairs)
    moved = Start(start.vocabulary, start.idf, vectors * 2, vectors[0], None)
    assert fingerprint(texts, start) == fingerprint(texts, start)
    assert (
        len({fingerprint(texts, start), fingerprint(other, start), fingerprint(texts, moved)}) == 3
    )


def test_idf_is_bounded_and_never_negative() -> None:
    found = idf_of(np.array([0.0, 0.01, 1.0]))
    assert found[1] == pytest.approx(-math.log(0.01), abs=2e-3)
    assert found[2] == 0
    assert found[0] == pytest.approx(-math.log(1e-5), rel=1e-6)
