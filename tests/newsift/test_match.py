import hashlib
import json
import math
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import encoder
import newsift as face
from encoder.encoder import Encoder
from encoder.errors import InputError, ModelError
from encoder.model_directory import write_model
from newsift import ray, spark
from newsift.cli.samples import SAMPLES
from newsift.matching import MATCH_COLUMNS, _load
from newsift.operations.seed_drafts import read_seed_files
from tests.encoder.small_model import small_model
from tests.encoder.small_transformer import model_with_star
from tests.worker.fake_command import Command
from worker.posts.checks import text_id

POSTS = ["storm flood river city", "match game music", "cat music the a", "", "police fire"]
ARTICLES: dict[str, Any] = {
    "storm": ("storm", "the river storm flood in the city"),
    "game": "match game music",
}
KEYS = ["id", "score", "threshold", "matched", "event", "why", "match_id"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "m"
    write_model(path, small_model())
    return path


@pytest.fixture(scope="module")
def enc(folder: Path) -> Iterator[Encoder]:
    with encoder.load(folder, device="cpu", threads=1) as loaded:
        yield loaded


@pytest.fixture
def find(enc: Encoder) -> Callable[..., Any]:
    """`newsift.match` by the small model, at a threshold that many posts reach."""

    def call(posts: Any, articles: Any = ARTICLES, **options: Any) -> Any:
        return face.match(posts, articles, **{"model": enc, "rate": 0.25, **options})

    return call


def test_a_sieve_has_the_match_ids_of_filter_in_any_partitioning(newsift: Command) -> None:
    done = newsift("filter", SAMPLES / "posts.jsonl", "--seeds", SAMPLES / "seeds", "--json")
    expected = {
        match["match_id"]: match["score"]
        for line in done.out.splitlines() for match in json.loads(line)["matches"]
    }  # fmt: skip
    articles = [
        {"id": draft.id, "event": draft.id, **draft.record}
        for draft in read_seed_files([SAMPLES / "seeds"])
    ]
    sieve = pickle.loads(pickle.dumps(face.Sieve(articles)))
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    table = pandas.read_json(SAMPLES / "posts.jsonl", lines=True, dtype={"id": str})

    for module in (spark, ray):
        result = module.matches(Parts(table[["id", "text"]], [0, 100, 100, len(table)]), sieve)
        assert dict(zip(result.match_id, result.score, strict=True)) == expected
        assert [*result.columns] == [*MATCH_COLUMNS]
    best = {row["match_id"] for row in sieve(table.to_dict("records")) if row["matched"]}
    assert best < expected.keys()


def joined(frames: Iterable[Any]) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.concat(frame for frame in frames if len(frame))


SPARK_TYPES = {"int64": "bigint", "double": "double", "large_string": "string", "string": "string"}


class Parts:
    """A table as Spark and Ray hand it to a function: from one of these rows to the next."""

    def __init__(self, table: Any, ends: Sequence[int]) -> None:
        self.columns, self._ends = list(table.columns), ends
        own = pytest.importorskip("pyarrow").Table.from_pandas(table, preserve_index=False)
        self._table = own.replace_schema_metadata()  # which says what pandas had

    def __getitem__(self, name: str) -> Any:
        return self._table.column(name)

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        """A type of Spark for each column."""
        return [
            (field.name, SPARK_TYPES.get(str(field.type), str(field.type)))
            for field in self._table.schema
        ]

    def withColumn(self, name: str, column: Any) -> "Parts":
        place = self.columns.index(name)
        self._table = self._table.set_column(place, name, column)
        return self

    def _parts(self) -> Iterator[Any]:
        return (self._table.slice(a, b - a) for a, b in pairwise(self._ends))

    def mapInPandas(self, function: Callable[..., Any], _schema: str) -> Any:
        frames = (part.to_pandas() for part in self._parts())
        return joined(function(frames))

    def map_batches(self, function: Callable[..., Any], batch_format: str) -> Any:
        assert batch_format == "pyarrow"
        return joined(batch.to_pandas() for batch in map(function, self._parts()))


@pytest.mark.parametrize("module", [spark, ray])
def test_ids_are_the_same_in_any_partitioning(enc: Encoder, module: Any) -> None:
    """pandas makes floats of whole numbers where one is missing."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    ids = pandas.array([1580000000000000001, None, 1580000000000000003], dtype="Int64")
    table = pandas.DataFrame({"id": ids, "text": ["storm flood river"] * 3})
    sieve = face.Sieve(["river storm"], model=enc, threshold=0.01)
    whole = module.matches(Parts(table, [0, 3]), sieve)
    assert [*whole.id][::2] == ["1580000000000000001", "1580000000000000003"]
    assert [*whole.match_id] == [*module.matches(Parts(table, [0, 1, 2, 3]), sieve).match_id]


@pytest.mark.filterwarnings("ignore:ids:UserWarning")
@pytest.mark.parametrize("module", [spark, ray])
@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([1.0, None, 1e17], ["1", None, None]),
        ([1.0, 2.5, math.inf], ["1", "2.5", "inf"]),
        ([Decimal(1), None, Decimal(10**17)], ["1", None, "100000000000000000"]),
    ],
)
def test_ids_that_are_no_texts_are_those_of_a_sieve(
    enc: Encoder, module: Any, ids: list[Any], expected: list[str | None]
) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    texts = [f"storm flood river {word}" for word in ("city", "game", "cat")]
    table = pandas.DataFrame({"id": ids, "text": texts})
    sieve = face.Sieve(["river storm"], model=enc, threshold=0.01)
    result = module.matches(Parts(table, [0, 3]), sieve)
    whole = {id or text_id(text) for id, text in zip(expected, texts, strict=True)}
    assert {*result.id} == whole
    assert [*result.match_id] == [row["match_id"] for row in sieve.matches(table)]


def test_a_block_of_ray_without_a_match_has_the_types_of_one_with_matches(enc: Encoder) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    sieve = face.Sieve(["river storm"], model=enc, threshold=0.5)

    class Block:
        def __init__(self, text: str) -> None:
            self.table = pa.table({"text": [text]})

        def map_batches(self, function: Callable[..., Any], batch_format: str) -> Any:
            return function(self.table)

    some, none = (ray.matches(Block(text), sieve) for text in ("river storm", "cat music"))
    assert (some.num_rows, none.num_rows) == (1, 0)
    assert some.schema == none.schema
    assert {*map(str, none.schema.types)} == {"string", "double"}


@pytest.mark.filterwarnings("ignore:ids:UserWarning")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (5.0, 5),
        (2.0**60, None),
        (math.inf, math.inf),
        ("", None),
        (" ", None),
        (1.5, 1.5),
        (2**60, 2**60),
    ],
)
def test_an_id_is_that_which_filter_gives(enc: Encoder, given: Any, expected: Any) -> None:
    (row,) = face.match([{"id": given, "text": "storm"}], ["river storm"], model=enc, threshold=0.9)
    assert row["id"] == (text_id("storm") if expected is None else expected)


ARRAYS = np.array(1), np.array([1, 2])


@pytest.mark.parametrize(
    "id",
    [True, np.True_, b"1", ["1"], {"id": 1}, (1,), {1}, 1j, object(), date(2026, 1, 1), *ARRAYS],
)
def test_an_id_that_is_no_name_is_refused(enc: Encoder, id: Any) -> None:
    with pytest.raises(InputError, match=r"^posts\[0\]: its id is a "):
        face.match([{"id": id, "text": "storm"}], ["river storm"], model=enc, threshold=0.9)


@pytest.mark.parametrize("reader", ["read", "skim"])
def test_with_two_readers_sieve_and_filter_have_the_same_matches(
    newsift: Command, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_MATCHING__READER", reader)
    done = newsift("filter", SAMPLES / "posts.jsonl", "--seeds", SAMPLES / "seeds", "--json")
    records = list(map(json.loads, done.out.splitlines()))
    matches = [match for record in records for match in record["matches"]]
    assert len(matches) > 100
    assert {match.get("skimmed") for match in matches} == {True if reader == "skim" else None}
    articles = [
        {"id": draft.id, "event": draft.id, **draft.record}
        for draft in read_seed_files([SAMPLES / "seeds"])
    ]
    posts = list(map(json.loads, (SAMPLES / "posts.jsonl").read_text().splitlines()))
    sieve = face.Sieve(articles, reader=reader)  # type: ignore[arg-type]
    rows = {row["match_id"]: row["score"] for row in sieve.matches(posts)}
    assert {match["match_id"]: match["score"] for match in matches} == rows
    best = {record["post"]["id"]: record["matches"][0] for record in records}
    for row in sieve(posts):
        assert row["matched"] == (row["id"] in best)
        if row["matched"]:
            found = best[row["id"]]
            assert (row["score"], row["why"]) == (found["score"], list(map(tuple, found["why"])))


@pytest.mark.parametrize("reader", ["read", "skim"])
def test_a_file_is_learned_from_with_either_reader(
    newsift: Command, reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(tmp_path / "model", model_with_star())
    settings = {
        "MODEL__NAME": tmp_path / "model", "MATCHING__READER": reader,
        "MATCHING__BACKGROUND_RATE": 0.05,
    }  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setenv(f"NEWSIFT_{name}", str(value))
    (tmp_path / "storm.txt").write_text("storm flood river city\n\nthe river storm in the city")
    posts = tmp_path / "posts.jsonl"
    posts.write_text(
        "".join(json.dumps({"text": f"{text} {text}"}) + "\n" for text in POSTS if text)
    )
    done = newsift(
        "filter", posts, "--seeds", tmp_path / "storm.txt", "--force", "--learn", "--json"
    )
    assert done.code == 0, done.err
    (record,) = map(json.loads, done.out.splitlines())
    assert record["matches"][0]["seed_id"] == "profile|storm"


def test_an_article_without_an_id_is_named_by_its_place_in_its_event(enc: Encoder) -> None:
    articles = {"s": ["river storm", {"text": "flood", "id": "own"}, "city"], "g": "match game"}
    sieve = face.Sieve(articles, model=enc, threshold=0.01)
    rows = sieve.matches(["river storm flood city match game"])
    assert {row["seed_id"] for row in rows} == {"s/0", "own", "s/2", "g/0"}
    with pytest.raises(InputError, match="its id 'own' is that of"):
        face.Sieve(
            [{"text": "a b", "id": "own"}, {"text": "c d", "id": "own"}], model=enc, threshold=0.1
        )


def test_a_pickled_sieve_refuses_another_model(folder: Path, enc: Encoder) -> None:
    sieve = face.Sieve(ARTICLES, model=folder, threshold=0.2)
    sieve.digest = "0" * 64
    with pytest.raises(ModelError, match="make the Sieve again"):
        sieve(POSTS)


@pytest.mark.parametrize("loaded", [False, True])
def test_a_process_without_the_model_names_its_place_and_digest(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loaded: bool
) -> None:
    """As a worker of Ray or Spark: another folder, and nothing loaded."""
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    monkeypatch.chdir(tmp_path)
    model = encoder.load("copy", device="cpu", threads=1) if loaded else "copy"
    sieve = face.Sieve(ARTICLES, model=model, threshold=0.2)
    packed, expected = pickle.dumps(sieve), sieve.matches(POSTS)
    monkeypatch.chdir("/")
    _load.cache_clear()
    copy.rename(tmp_path / "away")
    with pytest.raises(ModelError) as failure:
        pickle.loads(packed).matches(POSTS)
    assert repr(str(copy)) in str(failure.value)
    assert sieve.digest[:12] in str(failure.value)
    (tmp_path / "away").rename(copy)
    assert pickle.loads(packed).matches(POSTS) == expected


@pytest.mark.parametrize("threshold", [None, 0.3])
def test_each_post_names_its_closest_article(
    enc: Encoder, find: Callable[..., Any], threshold: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("newsift.matching.BLOCK", 2)
    rows = find(POSTS, threshold=threshold)
    A = enc.articles(list(ARTICLES.values()))
    S, cuts = enc.posts(POSTS).similarity(A), enc.thresholds(A, 0.25)
    for row, scores in zip(rows, S, strict=True):
        assert list(row) == KEYS
        k = int(len(scores) - 1 - scores[::-1].argmax())  # of equals the first by id: "game/0"
        assert row["score"] == pytest.approx(scores[k], abs=1e-6)
        assert row["threshold"] == pytest.approx(threshold or cuts[k], abs=1e-6)
        assert row["matched"] is (row["score"] >= row["threshold"])
    assert [row["event"] for row in rows[:2]] == ["storm", "game"]
    assert rows[0]["why"][0][1] == max(part for _, part in rows[0]["why"])
    assert (rows[3]["score"], rows[3]["matched"]) == (0, False)


def test_a_match_goes_before_a_higher_score_that_is_none(find: Callable[..., Any]) -> None:
    strict = {"text": "match game music", "event": "strict", "threshold": 1}
    loose = {"text": "match game music city", "event": "loose", "threshold": 0.01}
    [row] = find(["match game music police"], [strict, loose])
    assert (row["event"], row["threshold"], row["matched"]) == ("loose", 0.01, True)


def test_posts_are_texts_dicts_or_anything_that_yields_them(find: Callable[..., Any]) -> None:
    expected = find(POSTS)
    digest = hashlib.sha256(b"match game music").hexdigest()[:16]
    assert expected[1]["id"] == f"sha256:{digest}"
    for posts in (iter(POSTS), np.array(POSTS), [{"text": text} for text in POSTS]):
        assert find(posts) == expected
    named = [{"key": i, "said": text} for i, text in enumerate(POSTS)]
    assert [row["id"] for row in find(named, text="said", id="key")] == [0, 1, 2, 3, 4]
    assert find([]) == []


def test_posts_may_be_a_table_or_an_array_of_pyarrow(find: Callable[..., Any]) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table = pa.table({"text": POSTS, "id": [2**60 + 1, None, 3, 4, 5]})
    expected = find(table.to_pylist())
    assert find(table) == expected
    assert find(table.to_batches()[0]) == expected
    assert [row["id"] for row in expected] == [2**60 + 1, text_id(POSTS[1]), 3, 4, 5]
    for array in (table["text"], pa.array(POSTS)):
        assert find(array) == find(POSTS)
    with pytest.raises(InputError) as error:
        find(table, text="nope")
    assert str(error.value).endswith("('text', 'id' are there)")


def test_articles_are_texts_pairs_records_or_stand_under_their_events(
    find: Callable[..., Any],
) -> None:
    def events(articles: Any) -> list[str]:
        return [row["event"] for row in find(POSTS[:2], articles, threshold=0.1)]

    storm, game = "the river storm flood in the city", "match game music"
    assert events([storm, game]) == ["article 1", "article 2"]
    assert events([("Storm", storm), ("é" * 200, game)]) == ["Storm", "é" * 120]
    records: list[dict[str, Any]] = [{"text": storm, "event": "s"}, {"text": game, "url": None}]
    assert events(records) == ["s", "article 2"]
    own_ids = [{"text": storm, "id": "river", "title": "Storm"}, {"text": game, "id": 7}]
    assert events(own_ids) == ["river", "7"]  # without an event it is the seed id
    assert events({"s": [storm, ("Storm", "flood")], "g": {"text": game}}) == ["s", "g"]
    assert events(iter([storm, {"text": game, "paused": True}]))[0] == "article 1"


REFUSED: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "a text": ("storm", ARTICLES, {}, "a single str was given; put it into a list"),
    "a dict": ({"text": "storm"}, ARTICLES, {}, "posts: a single dict was given; put it into a l"),
    "no text": ([{"txt": "a"}], ARTICLES, {}, r"posts\[0\]: no text, expected a str under 'text'"),
    "an article": (POSTS, "storm", {}, "a single str was given; put it into a list"),
    "a pair": (POSTS, ("a", "b"), {}, r"a bare \(title, text\) was given; put it into a list"),
    "no article": (POSTS, [], {}, "articles: there is none to compare with"),
    "no words": (POSTS, ["city", "🔥"], {}, r"articles\[1\]: text: holds no word"),
    "a seed's threshold": (POSTS, [{"text": "a", "threshold": 2}], {}, r"articles\[0\]: threshold"),
    "a threshold": (POSTS, ARTICLES, {"threshold": 0}, "threshold: 0 is not above 0 and at most 1"),
    "no number": (POSTS, ARTICLES, {"threshold": "0.3"}, "threshold: '0.3' is not above 0 and at"),
    "a background": (POSTS, ARTICLES, {"background": 5}, "background: a int was given; give a pa"),
    "a rate": (POSTS, ARTICLES, {"rate": 2}, "rate: 2 is not a share between 0 and 1"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refuses_bad_posts_and_articles_with_the_remedy(
    find: Callable[..., Any], what: str
) -> None:
    posts, articles, options, message = REFUSED[what]
    with pytest.raises(InputError, match=message):
        find(posts, articles, **options)


def test_an_unknown_platform_is_refused_since_no_worker_makes_its_match_ids(folder: Path) -> None:
    sieve = face.Sieve(ARTICLES, model=folder, threshold=0.2)
    for find in (sieve, sieve.matches):
        with pytest.raises(InputError, match="platform: 'X' is none of x, bluesky, mastodon, plai"):
            find(POSTS, platform="X")


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(ModelError, match="nonesuch"):
        face.match(POSTS, ARTICLES, model="nonesuch")


def test_a_table_comes_back_as_a_table(find: Callable[..., Any]) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    rows = find(POSTS)
    table = pandas.DataFrame({"said": POSTS}, index=[f"row {i}" for i in range(5)])
    result = find(table, text="said")
    assert isinstance(result, pandas.DataFrame)
    assert [*result.columns] == KEYS
    texts = {
        name: result[name].astype(object).where(result.matched, None)
        for name in ("event", "match_id")
    }
    assert result.assign(**texts).to_dict("records") == rows
    named = table.assign(id=range(5))
    assert find(named, text="said")["id"].tolist() == [0, 1, 2, 3, 4]
    assert find(table.assign(key=list("vwxyz")), text="said", id="key")["id"].tolist() == [*"vwxyz"]
    gaps = table.assign(id=pandas.array([0, None, 2, 3, 4], dtype="Int64"))
    assert find(gaps, text="said")["id"].tolist() == [0, rows[1]["id"], 2, 3, 4]
    assert find(table.said) == rows, "of a Series a list"
    assert [*find(table[:0], text="said").columns] == KEYS
    with pytest.raises(InputError, match="no column 'text'; name it by text= or id= "):
        find(table)
    with pytest.raises(InputError, match=r'take its texts, as in table\["text"\]'):
        find(POSTS, table)
    gap = pandas.DataFrame({"text": ["storm", None]})
    with pytest.raises(InputError, match=r"posts\[1\]: .* expected a str under 'text'; leave it o"):
        find(gap)


def test_importing_newsift_loads_nothing_else() -> None:
    code = "import sys, newsift; print({'encoder', 'numpy', 'worker', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
    with pytest.raises(AttributeError, match="no attribute 'mach'"):
        _ = face.mach
