from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import encoder
from encoder import Encoder
from encoder.embeddings import Embeddings
from encoder.errors import DeviceError, InputError, ModelError
from encoder.model.config import Side
from encoder.model_directory import write_model
from encoder.readers import choose
from encoder.score.lexical import slot
from encoder.thresholds import EVERY_POST
from tests.encoder.slow_star import reference
from tests.encoder.small_model import (
    TOPICS,
    WORDS,
    background,
    same_rows,
    small_model,
    torch_readers,
)

ARTICLES: list[str | tuple[str, str]] = [
    ("storm", "the river storm flood in the city"),
    "match game music",
    ("", ""),
]
texts = st.one_of(st.text(max_size=40), st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))


@pytest.fixture(scope="module", params=["gated mean", "star", "paper", "dense alone"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    kinds: dict[str, dict[str, Any]] = {
        "gated mean": {}, "star": {"star": "paper", "layers": 2},
        "paper": {"star": "paper", "residual": False}, "dense alone": {"mix": 0.0},
    }  # fmt: skip
    path = tmp_path_factory.mktemp("models") / "m"
    write_model(path, small_model(**kinds[request.param]))
    return path


@pytest.fixture(scope="module")
def enc(folder: Path) -> encoder.Encoder:
    return encoder.load(folder, device="cpu", threads=2)


@pytest.fixture(scope="module")
def torch_enc(enc: encoder.Encoder) -> encoder.Encoder:
    return encoder.Encoder(enc.model, torch_readers(enc.model))


def test_the_dense_half_is_the_reference(enc: encoder.Encoder, torch_enc: encoder.Encoder) -> None:
    for i, text in enumerate(TOPICS):
        words = enc._tokenizer.words(text, Side.POST)
        exact = reference(enc.model.weights, [p for w in words for p in w.ids], Side.POST)
        exact /= np.linalg.norm(exact)
        np.testing.assert_allclose(torch_enc.posts(TOPICS).dense[i], exact, atol=1e-5)
        np.testing.assert_allclose(enc.posts(TOPICS).dense[i], exact, atol=2e-3)


def test_contributions_are_explanations_without_the_rest(
    enc: encoder.Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("encoder.explain.words.PAIRS_AT_ONCE", 3)
    A, posts = enc.articles(ARTICLES), [*TOPICS, "", "river flood storm"]
    pairs = [(post, k) for post in range(len(posts)) for k in range(len(ARTICLES))]
    result = enc.contributions(posts, A, pairs)
    assert len(result) == len(pairs)
    for (post, k), parts in zip(pairs, result, strict=True):
        expected = enc.explain(posts[post], A, k)[:-1]
        assert [word for word, _ in parts] == [word for word, _ in expected]
        np.testing.assert_allclose([p for _, p in parts], [p for _, p in expected], atol=1e-3)
        if enc.path == "kernel":
            assert parts == enc.contributions([posts[post]], A, [(0, k)])[0]


def test_a_text_without_words_matches_nothing(enc: encoder.Encoder) -> None:
    A = enc.articles(ARTICLES)
    P = enc.posts(["", "   ", "https://t.co/abc", "\U0001f525\U0001f525"])
    assert not P.dense.any()
    assert not P.similarity(A).any()
    assert (P.similarity(A) < enc.thresholds(A, rate=0.01)).all()


def test_skimmed_posts_have_thresholds_of_their_own(enc: encoder.Encoder) -> None:
    A, Q = enc.articles(["storm flood river", "match game"]), enc.skim(["storm in the city"])
    assert Q.skimmed
    assert not enc.posts(["storm"]).skimmed
    assert (enc.thresholds(A, 0.05, skim=True) == enc.match_thresholds(A, 0.01, 5)[1]).all()
    with pytest.raises(InputError, match="background"):
        enc.thresholds(A, 0.5, background=Q)
    with pytest.raises(InputError, match="background"):
        enc.thresholds(A, 0.5, background=enc.posts(["storm"]), skim=True)
    with pytest.raises(InputError, match="background"):
        enc.thresholds(A, 0.5, background=["storm"])  # type: ignore[arg-type]
    assert (enc.match_thresholds(A, 0.01, "all")[1] == EVERY_POST).all()


def test_thresholds_may_come_from_posts_of_ones_own(enc: encoder.Encoder) -> None:
    A, B = enc.articles(ARTICLES[:2]), enc.posts(background(100))
    own = enc.thresholds(A, 0.05, background=B)
    ranked = np.sort(B.similarity(A), axis=0)[::-1]  # [posts, articles]
    np.testing.assert_allclose(own, np.maximum(ranked[4], 0), atol=1e-6)


def test_the_words_of_a_post_have_their_weights(enc: encoder.Encoder) -> None:
    tokens = enc.tokenize("Storm storm, city! qqrq https://t.co/abc")
    assert [word for word, _ in tokens] == ["Storm", "storm", ",", "city", "!", "qqrq"]
    result = dict(tokens)
    idf = enc.model.idf
    if idf is None:
        assert set(result.values()) == {0.0}
        return
    raw = {word: idf.table[slot(word)] for word in ("storm", "city", "qqrq")}
    raw["storm"] *= 1 + np.log(2)
    length = np.sqrt(sum(value**2 for value in raw.values()))
    for word in (",", "!", *raw):
        assert result[word] == pytest.approx(raw.get(word, 0) / length, abs=1e-6)


def test_the_place_where_a_text_is_cut_is_marked(enc: encoder.Encoder) -> None:
    cut = ("…", 0.0)
    assert cut not in enc.tokenize("storm " * 32)
    longer = enc.tokenize("storm " * 33)
    assert [at for at, tokens in enumerate(longer) if tokens == cut] == [32]
    assert len(longer) == 34
    assert enc.tokenize("storm" + " " * 9000) == [("storm", longer[0][1]), cut]
    assert enc.tokenize("") == []


def test_a_bare_title_and_text_is_refused(enc: encoder.Encoder) -> None:
    with pytest.raises(InputError, match=r"bare \(title, text\)"):
        enc.articles(("storm", "the river flood"))
    with pytest.raises(InputError, match="put it into a list"):
        enc.posts("storm")
    assert len(enc.posts(("storm", "the river flood"))) == 2
    assert len(enc.articles((("storm", "the river"),))) == 1


def test_texts_come_from_any_iterable(
    enc: encoder.Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("encoder.encoder.BLOCK", 3)
    whole = enc.posts(list(TOPICS))
    for texts in (iter(TOPICS), np.array(TOPICS), dict.fromkeys(TOPICS).keys()):
        np.testing.assert_array_equal(enc.posts(texts).dense, whole.dense)


def test_texts_come_from_a_series(enc: encoder.Encoder) -> None:
    whole = enc.posts(TOPICS)
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    table = pandas.DataFrame({"text": TOPICS}, index=[*"abcd"])
    for texts in (table.text, table.text.astype("string"), table.text.astype("category")):
        np.testing.assert_array_equal(enc.posts(texts).dense, whole.dense)
        np.testing.assert_array_equal(whole[texts != TOPICS[1]].dense, whole.dense[[0, 2, 3]])
    for embed in (enc.posts, enc.articles):
        with pytest.raises(InputError, match=r"a DataFrame was given; take its texts, as in table"):
            embed(table)
    with pytest.raises(InputError, match=r"posts\[1\]: "):
        enc.posts(table.text.where(table.text != TOPICS[1]))


def test_texts_come_from_an_array_of_pyarrow(enc: encoder.Encoder) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    texts = [*TOPICS]
    for array in (pa.array(texts), pa.chunked_array([texts[:1], texts[1:]])):
        np.testing.assert_array_equal(enc.posts(array).dense, enc.posts(texts).dense)
        np.testing.assert_array_equal(enc.articles(array).dense, enc.articles(texts).dense)


def test_an_unknown_model_or_device_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nonesuch"):
        encoder.load("nonesuch")
    for other in (None, 5, b"default"):
        with pytest.raises(InputError, match="model: a "):
            encoder.load(other)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="'tpu' is unknown"):
        encoder.load(folder, device="tpu")
    with pytest.raises(InputError, match="threads: 0"):
        encoder.load(folder, threads=0)
    for wrong in (0, True, "2"):
        with pytest.raises(InputError, match="threads: "):
            encoder.load(folder).posts([], threads=wrong)  # type: ignore[arg-type]
    if not choose.cuda_present():
        with pytest.raises(DeviceError, match="no CUDA GPU"):
            encoder.load(folder, device="cuda")


def test_what_an_explanation_is_of_is_checked(enc: encoder.Encoder) -> None:
    articles = enc.articles(["storm"])
    for k in (None, "0", 0.5, 1, -1, np.array([1])):
        with pytest.raises(InputError, match="k: "):
            enc.explain("storm", articles, k)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="articles: a list was given"):
        enc.explain("storm", ["storm"])  # type: ignore[arg-type]


words = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
many_texts = st.lists(
    st.one_of(st.text(max_size=40), words, words.map(lambda w: w * 9)), max_size=30
)


@pytest.fixture(scope="module")
def crews(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Encoder]:
    folder = tmp_path_factory.mktemp("models") / "m"
    write_model(folder, small_model())
    return {n: encoder.load(folder, device="cpu", threads=n) for n in (1, 2, 3)}


@settings(max_examples=60)
@given(
    given=many_texts, threads=st.sampled_from((1, 2, 3)), block=st.integers(1, 9),
    worth=st.integers(1, 200), limit=st.none() | st.integers(1, 4),
)  # fmt: skip
def test_threads_give_each_text_the_bits_it_has_alone(
    crews: dict[int, Encoder], given: list[str], threads: int, block: int, worth: int,
    limit: int | None,
) -> None:  # fmt: skip
    articles = [(text, text) if len(text) % 2 else text for text in given]
    alone = crews[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("encoder.encoder.BLOCK", block)
        patch.setattr("encoder.encoder.MIN_LETTERS_PER_THREAD", worth)
        posts = crews[threads].posts(iter(given), threads=limit)
        seeds = crews[threads].articles(articles)
    nothing = alone.posts([])
    assert same_rows(posts, Embeddings.concat([nothing, *(alone.posts([text]) for text in given)]))
    assert same_rows(seeds, Embeddings.concat([nothing, *(alone.articles([t]) for t in articles)]))


def test_a_bad_text_is_named_by_its_place_and_the_encoder_goes_on(
    crews: dict[int, Encoder],
) -> None:
    many = list(TOPICS) * 3000  # more than are read at a time
    crew = crews[2]
    before = crew.posts(many)
    with pytest.raises(InputError, match=r"posts\[11999\]: int, expected str"):
        crew.posts([*many[:11999], 5])  # type: ignore[list-item]
    with pytest.raises(InputError, match=r"articles\[4096\]: tuple"):
        crew.articles(("a", "b", "c") if i == 4096 else "a" for i in range(4097))  # type: ignore[misc]

    def broken() -> Iterator[str]:
        yield from many
        raise OSError("the file is gone")

    with pytest.raises(OSError, match="the file is gone"):
        crew.posts(broken())
    assert same_rows(crew.posts(many), before)
