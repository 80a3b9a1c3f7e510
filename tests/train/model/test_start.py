import gzip
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from encoder.errors import InputError
from encoder.model.config import AstConfig, Side
from encoder.model.siamese import Siamese
from encoder.model.star_settings import BEFORE
from encoder.readers.star_chunks import END, START
from encoder.score.lexical import SLOTS, Idf, slot
from encoder.text.tokenizer import Tokenizer
from encoder.text.vocabulary import WordLevel, WordPiece
from tests.encoder.small_model import LINES
from tests.train import tiny
from train.data.corpus import Corpus
from train.data.readers import Pair, TrainingArticle
from train.model.start import frequent_words, main_directions, make_start, read_vectors
from train.recipe import Recipe, TokenOptions, read_recipe
from train.run import make_model
from train.teacher.star import StarTeacher
from train.transformer.mpnet import padded

GLOVE = "the 0.1 -0.2 3e-1\n. . . 1 2 3\nCafé 4 5 6\n\x85 7 8 9\n"
WORD2VEC = "4 3\n" + GLOVE.replace("\n", " \n")
MANY = 10_000
WORDS = ["the", ". . .", "Café", "\x85"]
VALUES = np.array([[0.1, -0.2, 0.3], [1, 2, 3], [4, 5, 6], [7, 8, 9]], np.float32)


def write(folder: Path, content: str | bytes, packed: bool = False) -> Path:
    data = content.encode() if isinstance(content, str) else content
    file = folder / "vectors"
    file.write_bytes(gzip.compress(data) if packed else data)
    return file


@pytest.mark.parametrize("content", [GLOVE, WORD2VEC])
@pytest.mark.parametrize("packed", [False, True])
def test_both_formats_are_read_plain_and_packed(tmp_path: Path, content: str, packed: bool) -> None:
    words, values = read_vectors(write(tmp_path, content, packed), 3, MANY)
    assert words == WORDS
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, VALUES)


@pytest.mark.parametrize(
    "bad",
    [b"short 1 2", b"long 1 2 3 x", b"", b"nan 1 2 nan", b"huge 1 2 1e39", b"\xff\xfe 1 2 3",
     b"the 1 2 3"],
)  # fmt: skip
@pytest.mark.parametrize("header", [b"", b"9 3\n"])
def test_malformed_lines_are_skipped(tmp_path: Path, bad: bytes, header: bytes) -> None:
    body = b"the 1 2 3\nof 4 5 6\n%s\nto 7 8 9\nand 1 1 1\n%s\n" % (bad, bad)
    words, values = read_vectors(write(tmp_path, header + body), 3, MANY)
    assert words == ["the", "of", "to", "and"]
    assert values.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9], [1, 1, 1]]


@pytest.mark.parametrize(
    ("content", "dim", "fault"),
    [
        ("", 3, "no line"),
        (GLOVE, 4, "no line is a word and 4 numbers; name the file of that dim"),
        (gzip.compress(GLOVE.encode(), mtime=0)[:-9], 3, "fetch it again"),
    ],
)
def test_a_file_without_vectors_is_refused(
    tmp_path: Path, content: str | bytes, dim: int, fault: str
) -> None:
    with pytest.raises(InputError, match=fault):
        read_vectors(write(tmp_path, content), dim, MANY)


TEXTS = Corpus(
    ["storm Netanyahu", "Netanyahu! the river", "#Netanyahu and brexit", "2020 = 2020 Netanyahu"],
    [TrainingArticle("Brexit", "brexit and the storm, the storm")],
    [],
    [Pair("a coronavirus", TrainingArticle("Coronavirus", "the coronavirus of the city"))],
    ["the coronavirus of the city"],
)  # fmt: skip


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> StarTeacher:
    return tiny.taught(TEXTS, tmp_path_factory.mktemp("runs") / "star")


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    return read_recipe(str(tiny.recipe(tmp_path)))


def test_whole_words_are_the_most_frequent_of_several_pieces() -> None:
    pieces = WordPiece.from_lines(LINES)
    assert frequent_words(TEXTS, pieces, 2) == ["netanyahu", "brexit"]  # four times, and three
    assert frequent_words(TEXTS, pieces, 50) == ["netanyahu", "brexit", "coronavirus"]
    assert frequent_words(TEXTS, pieces, 0) == []


@pytest.mark.parametrize("dim", [8, 12])
def test_whole_words_are_added_to_the_word_pieces(
    recipe: Recipe, teacher: StarTeacher, dim: int
) -> None:
    """Each token has the star's vector of it alone, centred."""
    start = make_start(replace(recipe, model=replace(recipe.model, dim=dim)), TEXTS, teacher)
    assert start.vocabulary.lines()[: len(LINES)] == LINES
    whole = start.vocabulary.lines()[len(LINES) :]
    assert set(whole) == {"brexit", "coronavirus", "netanyahu"}
    assert start.vocabulary.pieces("Coronavirus") == (
        LINES.index("##z") + 1 + whole.index("coronavirus"),
    )
    assert len(start.vocabulary.pieces("coronaviruses")) > 1
    assert start.directions is not None
    pieces = WordPiece.from_lines(LINES)
    tokens = [*([i] for i in range(len(LINES))), *map(pieces.pieces, whole)]
    chunks = [np.array([START, *(i + BEFORE for i in ids), END], np.int32) for ids in tokens]
    with torch.inference_mode():
        raw = np.concatenate([teacher.star.star(*padded([x])).float().numpy() for x in chunks])
    raw /= np.linalg.norm(raw, axis=1, keepdims=True)
    moved = (raw - raw[: len(LINES)].mean(0)) @ start.directions.numpy()
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    assert np.allclose(start.vectors, moved, atol=1e-5)


def test_idf_and_gates_are_those_of_a_count_by_hand(recipe: Recipe, teacher: StarTeacher) -> None:
    start = make_start(recipe, TEXTS, teacher)
    reader = Tokenizer(start.vocabulary, Idf(np.ones(SLOTS, np.float32)), recipe.model)
    posts = [reader.words(post, Side.POST) for post in (*TEXTS.posts, "a coronavirus")]
    sentences = [reader.words(sentence, Side.POST) for sentence in TEXTS.sentences]
    stories = [*TEXTS.articles, ("Coronavirus", "the coronavirus of the city")]
    articles = [reader.words(story, Side.ARTICLE) for story in stories]
    for word in ("storm", "brexit", "netanyahu", "the", "city"):
        idf, gate = (
            max(
                0.0, -math.log(np.mean([word in {w.text.lower() for w in t} for t in texts]) + 1e-5)
            )
            for texts in (posts + sentences, posts + articles)
        )
        assert start.idf.table[slot(word)] == pytest.approx(idf, abs=1e-5)
        assert start.gates[start.vocabulary.pieces(word)[0]] == pytest.approx(gate, abs=1e-5)
    assert start.idf.table[slot("neverseen")] == pytest.approx(-math.log(1e-5), rel=1e-5)
    assert start.gates[LINES.index("[PAD]")] == np.float32(1e-3)


def test_the_main_directions_keep_the_variance_of_the_texts(teacher: StarTeacher) -> None:
    result = main_directions(TEXTS, teacher, 7)
    assert np.allclose(result.T @ result, np.eye(7), atol=1e-5)
    seven = teacher.texts([*TEXTS.posts, "a coronavirus"])
    unit = seven / np.linalg.norm(seven, axis=1, keepdims=True)
    assert np.allclose(np.linalg.norm(unit @ result, axis=1), 1, atol=1e-3)
    assert np.array_equal(main_directions(TEXTS, teacher, 12), np.eye(12))
    with pytest.raises(InputError, match=r"model\.dim: 13 is more than the 12"):
        main_directions(TEXTS, teacher, 13)


def test_words_out_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("storm 1 2 3\nThe 4 5 6\nriver 7 8 9\n")
    recipe = Recipe(
        model=AstConfig(dim=3, heads=1, head_dim=3),
        tokens=TokenOptions(kind="words", vectors="away.txt", most=2),
    )
    start = make_start(recipe, TEXTS, None, file)
    assert isinstance(start.vocabulary, WordLevel)
    assert start.vocabulary.lines() == ["storm", "The"]
    assert start.vectors.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert start.directions is None
    with pytest.raises(InputError, match=r"no file away\.txt; name where it lies by --vectors"):
        make_start(recipe, TEXTS, None)


def test_a_model_starts_with_these_vectors_and_gates(recipe: Recipe, teacher: StarTeacher) -> None:
    start = make_start(recipe, TEXTS, teacher)
    model = make_model(recipe, start)
    assert isinstance(model, Siamese)
    weights = model.weights()
    np.testing.assert_allclose(weights.embedding, start.vectors, atol=1 / 62)  # in int8
    for side in Side:
        assert np.allclose(weights["residual.gates"][side], start.gates, rtol=1e-5)
    assert not weights["residual.gain"].any()


def test_a_teacher_of_another_width_reads_no_articles(teacher: StarTeacher) -> None:
    recipe = Recipe(model=AstConfig(dim=8, heads=2, head_dim=4), articles="teacher")
    with pytest.raises(InputError, match=r"model\.dim: is not 12"):
        make_start(recipe, TEXTS, teacher)
