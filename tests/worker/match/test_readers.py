import json
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoder.embeddings import Background, Embeddings
from encoder.model.weights import F32, I64
from encoder.thresholds import EVERY_POST
from tests.encoder.small_model import background, same_rows
from tests.encoder.small_transformer import two_readers
from tests.worker.event_profiles import profile_value, vector_of
from tests.worker.small_encoder import ARTICLES, book_of, mail, same
from worker.match.links import linked_pairs
from worker.match.near import NearWatch, is_control_read
from worker.match.pipeline import Pipeline
from worker.match.readers import (
    PORTION_LETTERS,
    MatchOptions,
    PostMatcher,
    PostReader,
    ReadTexts,
    share_read,
)
from worker.match.records import RecordRules
from worker.posts.outcome import Post
from worker.posts.read import PostRules, Reason
from worker.seeds.automatic import OwnBackground, Reader, ThresholdRules
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.record import json_digest
from worker.seeds.set import SeedSet

RATE, FACTOR = 0.05, 3.0
RULES = ThresholdRules(RATE, read_factor=FACTOR)


class Counting:
    """Counts the texts that are read."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __getattr__(self, name: str) -> object:
        return getattr(two_readers(), name)

    def posts(self, texts: list[str], threads: int | None = None) -> Embeddings:
        self.texts += texts
        return two_readers().posts(texts, threads=threads)


def reading(enc: Any) -> ReadTexts:
    return PostReader(enc, 1).read


def made(rules: ThresholdRules, **own: float) -> SeedSet:
    seeds = {name: {"text": text} | ({"threshold": own[name]} if name in own else {})
             for name, text in ARTICLES.items()}  # fmt: skip
    return SeedEmbedder(two_readers(), rules).make(book_of(**seeds).snapshot())


def cuts_of_a_slow_loop(seeds: SeedSet, rate: float, factor: float) -> tuple[F32, F32]:
    """The thresholds and skim thresholds, from sorted scores of the background."""
    both = two_readers().background
    scores, near = (b.similarity(seeds.embeddings) for b in (both.read, both.skim))
    cuts, skim_cuts = [], []
    for column, approximate in zip(scores.T, near.T, strict=True):
        least = sorted(approximate)[-round(factor * rate * len(both))]
        read = [score for score, a in zip(column, approximate, strict=True) if a >= least]
        skim_cuts.append(least)
        cuts.append(sorted(read)[-round(rate * len(both))])
    return np.array(cuts), np.array(skim_cuts)


def test_automatic_thresholds_are_those_of_a_slow_loop() -> None:
    seeds = made(RULES)
    cuts, skim_cuts = cuts_of_a_slow_loop(seeds, RATE, FACTOR)
    assert seeds.thresholds.tolist() == cuts.tolist()
    assert seeds.skim_thresholds is not None
    assert seeds.skim_thresholds.tolist() == skim_cuts.tolist()


def test_a_looser_threshold_lowers_the_skim_threshold_by_as_much() -> None:
    automatic = made(RULES)
    assert automatic.skim_thresholds is not None
    names = [seed.id for seed in automatic.seeds]
    moves = dict(zip(names, (-0.05, 0.05, -0.2, 0.0), strict=True))
    own = {n: float(t) + moves[n] for n, t in zip(names, automatic.thresholds, strict=True)}
    seeds = made(RULES, **own)
    assert seeds.skim_thresholds is not None
    expected = [
        cut + min(moves[name], 0)
        for name, cut in zip(names, automatic.skim_thresholds.tolist(), strict=True)
    ]
    assert seeds.skim_thresholds.tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("rules", [
    ThresholdRules(RATE, read_factor=inf), ThresholdRules(0.5, read_factor=2),
    ThresholdRules(1e-9, threshold=0.3),
])  # fmt: skip
def test_every_post_is_read(rules: ThresholdRules) -> None:
    seeds = made(rules)
    assert seeds.skim_thresholds is not None
    assert set(seeds.skim_thresholds.tolist()) == {float(EVERY_POST)}
    assert len(seeds) == len(ARTICLES)


def test_the_constant_of_a_total_rate_is_added_to_both() -> None:
    alone, together = made(RULES), made(ThresholdRules(RATE, total=True, read_factor=FACTOR))
    assert alone.skim_thresholds is not None
    assert together.skim_thresholds is not None
    assert together.raised > 0
    raised = np.float64(together.raised)
    assert together.thresholds.tolist() == (alone.thresholds + raised).astype(np.float32).tolist()
    skim = (alone.skim_thresholds + raised).astype(np.float32)
    assert together.skim_thresholds.tolist() == skim.tolist()
    both, A = two_readers().background, together.embeddings
    passes = (both.read.similarity(A) >= together.thresholds) & (both.skim.similarity(A) >= skim)
    assert 0 < passes.any(axis=1).sum() <= RATE * len(both)


@pytest.mark.parametrize("most", [1, 10])
@pytest.mark.parametrize("at_once", [1, 2**22])
def test_a_pair_matches_where_both_scores_reach_their_thresholds(
    most: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.match.readers.PAIRS_AT_ONCE", at_once)
    texts = [*background(200), *ARTICLES.values(), *ARTICLES.values()]
    enc, seeds = Counting(), made(RULES)
    Q, P = two_readers().skim(texts), two_readers().posts(texts)
    near, exact = Q.similarity(seeds.embeddings), P.similarity(seeds.embeddings)
    assert seeds.skim_thresholds is not None
    matcher = PostMatcher(reading(enc), seeds, MatchOptions(most=most))
    result = matcher.match(texts, Q, np.zeros(len(texts), np.int64))

    reached = near >= seeds.skim_thresholds
    expected = reached & (exact >= seeds.thresholds)
    assert result.rows.tolist() == np.flatnonzero(reached.any(axis=1)).tolist()
    assert sorted(enc.texts) == sorted({texts[row] for row in result.rows})
    assert (expected != (exact >= seeds.thresholds)).any()  # the skim threshold decides, too
    assert result.pairs.counts.tolist() == expected.sum(axis=1).tolist()
    assert result.pairs.hits.tolist() == expected.sum(axis=0).tolist()
    listed = [
        (post, seed) for post in range(len(texts))
        for seed in sorted(np.flatnonzero(expected[post]), key=lambda s: -exact[post, s])[:most]
    ]  # fmt: skip
    pairs = result.pairs
    assert list(zip(pairs.posts.tolist(), pairs.seeds.tolist(), strict=True)) == listed
    assert pairs.scores.tolist() == [exact[pair] for pair in listed]
    matching = P[np.flatnonzero(expected.any(axis=1))]
    assert np.array_equal(result.matching.dense, matching.dense)


def test_texts_are_read_in_portions_and_not_again_while_they_are_kept() -> None:
    long = f"flood {'water ' * (PORTION_LETTERS // 6)}"
    texts = [*background(20), long, *background(5), *background(20)]
    enc, portions = Counting(), list[int]()
    reader = PostReader(enc, 1)  # type: ignore[arg-type]

    def portion() -> None:
        portions.append(len(enc.texts))

    exact = two_readers().posts(texts)
    for _ in range(2):
        assert same_rows(reader.read(texts, portion), exact)
    distinct = list(dict.fromkeys(texts))
    assert enc.texts == distinct  # the second time none is read
    assert portions == [distinct.index(long) + 1, len(distinct)][: len(portions)]
    assert len(portions) == 1 + (distinct[-1] != long)


def test_what_is_kept_of_read_texts_is_bounded() -> None:
    texts = background(40)
    enc = Counting()
    reader = PostReader(enc, 1, kept_bytes=20_000)  # type: ignore[arg-type]
    for text in texts:
        reader.read([text])
    reader.read(texts[-1:])
    assert enc.texts == texts
    reader.read(texts[:1])
    assert enc.texts == [*texts, texts[0]]


def test_a_reading_that_is_given_up_ends_after_a_portion() -> None:
    enc = Counting()
    reader = PostReader(enc, 1)  # type: ignore[arg-type]
    texts = [f"{number} {'water ' * (PORTION_LETTERS // 6)}" for number in range(3)]

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reader.read(texts, stop)
    assert enc.texts == texts[:1]


def test_near_misses_are_posts_that_were_read() -> None:
    texts = [*background(300), *ARTICLES.values()]
    embedder = SeedEmbedder(two_readers(), RULES)
    seeds = embedder.make(book_of(**{n: {"text": t} for n, t in ARTICLES.items()}).snapshot())
    edges = NearWatch(embedder.automatic).edges(seeds)
    low = two_readers().thresholds(seeds.embeddings[:1], RATE * FACTOR)
    assert edges.edges[0, -1] == min(low[0], seeds.thresholds[0])
    matcher = PostMatcher(reading(two_readers()), seeds, MatchOptions(edges=edges))
    result = matcher.match(texts, two_readers().skim(texts), np.zeros(len(texts), np.int64))
    assert result.pairs.nears is not None
    assert len(result.pairs.nears.posts) > 0
    assert set(result.pairs.nears.posts.tolist()) <= set(result.rows.tolist())


@pytest.mark.parametrize(
    "rules", [ThresholdRules(0.01, read_factor=2), ThresholdRules(0.01, total=True, read_factor=2)]
)
def test_control_posts_are_those_of_a_slow_loop_and_never_match(rules: ThresholdRules) -> None:
    texts = [*background(300), *ARTICLES.values()]
    embedder = SeedEmbedder(two_readers(), rules)
    seeds = embedder.make(book_of(**{n: {"text": t} for n, t in ARTICLES.items()}).snapshot())
    Q, P = two_readers().skim(texts), two_readers().posts(texts)
    near, exact = Q.similarity(seeds.embeddings), P.similarity(seeds.embeddings)
    both = two_readers().background.skim.similarity(seeds.embeddings)
    floors = np.sort(both, axis=0)[-round(0.05 * len(both))] + np.float32(seeds.raised)
    assert (seeds.raised > 0) == rules.total
    assert seeds.skim_thresholds is not None
    is_read = (near >= seeds.skim_thresholds).any(axis=1)
    controls = np.flatnonzero((near >= floors).any(axis=1) & ~is_read).tolist()
    lost = [row for row in controls if (exact[row] >= seeds.thresholds).any()]
    assert lost

    letters = [mail(str(n), text, offset=n) for n, text in enumerate(texts)]
    pipelines = Pipeline(two_readers()), Pipeline(two_readers())
    edges = [NearWatch(embedder.automatic, control).edges(seeds) for control in (False, True)]
    without, outcome = (
        pipeline.run(letters, seeds, lambda: "now", own)
        for pipeline, own in zip(pipelines, edges, strict=True)
    )
    assert outcome.records == without.records
    assert outcome.read_by_star == without.read_by_star == is_read.sum()
    assert outcome.best.tolist() == without.best.tolist()
    assert without.control.total() == 0
    drawn = [
        row for row in controls if is_control_read(Post(str(row), "plain", ""), edges[1].nonce)
    ]
    assert outcome.control == {
        "skimmed": len(controls), "read": len(drawn), "lost": len({*drawn} & {*lost})
    }  # fmt: skip
    matcher = PostMatcher(reading(two_readers()), seeds, MatchOptions(edges=edges[1]))
    times = np.zeros(len(texts), np.int64)
    every = matcher.match(texts, Q, times, draw=lambda posts: posts)
    assert every.control == {
        "skimmed": len(controls), "read": len(controls), "lost": len(lost)
    }  # fmt: skip
    seen = list[int]()

    def note(posts: I64) -> I64:
        seen.extend(posts.tolist())
        return posts[:0]

    matcher.match(texts, Q, times, draw=note)
    assert seen == controls


def test_a_control_reads_one_post_in_fifty() -> None:
    posts = [Post(str(n), "x", "") for n in range(20_000)]
    chosen, again, other = ([is_control_read(post, n) for post in posts] for n in ("a", "a", "b"))
    assert 300 < sum(chosen) < 500
    assert chosen == again != other


class Failing(Counting):
    """Cannot read some texts, and gives others a vector that is not finite."""

    def posts(self, texts: list[str], threads: int | None = None) -> Embeddings:
        if any("broken" in text for text in texts):
            raise ArithmeticError("broken")
        read = super().posts(texts, threads)
        dense = read.dense.copy()
        dense[["endless" in text for text in texts]] = np.inf
        return replace(read, dense=dense)


def test_a_text_that_cannot_be_read_falls_on_its_message_alone() -> None:
    texts = ["storm flood river", "a broken storm", "an endless flood", *background(30)]
    letters = [mail(str(n), text, offset=n) for n, text in enumerate(texts)]
    seeds = made(ThresholdRules(RATE, threshold=0.01, read_factor=inf))
    good = Pipeline(two_readers()).run(letters, seeds, lambda: "now")
    outcome = Pipeline(Failing()).run(letters, seeds, lambda: "now")  # type: ignore[arg-type]
    kinds = {record.source: record.kind for record in outcome.records}
    expected = {record.source: record.kind for record in good.records}
    assert kinds == expected | {1: "rejected", 2: "rejected"}
    assert outcome.rejected == {Reason.FAILED: 1, Reason.NOT_FINITE: 1}


def test_the_share_of_the_background_that_is_read() -> None:
    seeds, skimmed = made(RULES), two_readers().background.skim
    assert seeds.skim_thresholds is not None
    reached = skimmed.similarity(seeds.embeddings) >= seeds.skim_thresholds
    assert share_read(seeds, skimmed) == reached.any(axis=1).mean() > 0
    assert share_read(made(ThresholdRules(RATE, reader="skim")), skimmed) == 0


def test_a_skimming_reader_reads_no_post() -> None:
    enc, seeds, texts = Counting(), made(ThresholdRules(RATE, reader="skim")), background(200)
    assert seeds.skim_thresholds is None
    approximate = two_readers().thresholds(seeds.embeddings, RATE, skim=True)
    assert seeds.thresholds.tolist() == approximate.tolist()
    Q = two_readers().skim(texts)
    result = PostMatcher(reading(enc), seeds, MatchOptions()).match(
        texts, Q, np.zeros(len(texts), np.int64)
    )
    assert enc.texts == []
    expected = (Q.similarity(seeds.embeddings) >= seeds.thresholds).sum(axis=1)
    assert result.pairs.counts.tolist() == expected.tolist()


@pytest.mark.parametrize("reader", ["read", "skim"])
def test_a_promise_keeps_its_skim_threshold_and_holds_for_posts_that_are_read(
    reader: Reader,
) -> None:
    enc, names = two_readers(), {"flood": ARTICLES["flood"]}
    vectors = vector_of(list(names.values()), enc=enc).encode()
    book = book_of(flood={"text": ARTICLES["flood"], "event": "storm"})
    own = {"vectors": vectors, "model": enc.digest, "threshold": 0.9}
    numbers = []
    for more in ({"skim_threshold": 0.8, "promise": {}}, {"threshold": None}):
        book.put(b"profile|storm", profile_value("storm", names, **own | more))
        seeds = SeedEmbedder(enc, ThresholdRules(RATE, reader=reader)).make(book.snapshot())
        assert [seed.id for seed in seeds.seeds] == ["profile|storm"]
        numbers.append((seeds.thresholds.tolist(), seeds.skim_thresholds))
    (promised, skim), (automatic, _) = numbers
    if reader == "skim":
        assert (promised, skim) == (automatic, None)
        return
    assert promised == [np.float32(0.9)] != automatic
    assert skim is not None
    assert skim.tolist() == [np.float32(0.8)]


def test_an_own_background_holds_both_readers_vectors(tmp_path: Path) -> None:
    enc, texts = two_readers(), background(150)
    both = Background(enc.posts(texts), enc.skim(texts))
    both.save(tmp_path / "own.safetensors")
    loaded = Background.load(tmp_path / "own.safetensors")
    assert np.array_equal(loaded.skim.dense, both.skim.dense)
    assert np.array_equal(loaded.read.dense, both.read.dense)
    assert not loaded.has_one_reader
    book = book_of(**{name: {"text": text} for name, text in ARTICLES.items()}).snapshot()
    first, second = (
        SeedEmbedder(enc, RULES, OwnBackground(b, "0" * 12)).make(book) for b in (both, loaded)
    )
    assert same(first, second)
    assert not np.array_equal(first.thresholds, made(RULES).thresholds)


def test_what_else_decides_about_matches_is_in_the_digest() -> None:
    rules = [RULES, ThresholdRules(RATE), ThresholdRules(RATE, reader="skim"),
             ThresholdRules(RATE, read_factor=inf)]  # fmt: skip
    assert len({made(one).digest for one in rules}) == len(rules)


PAGES = {name: f"https://news.example.org/{name}" for name in ARTICLES}


def linked_seeds(rules: ThresholdRules = RULES, **keys: object) -> SeedSet:
    seeds = {name: {"text": text, "url": PAGES[name], **keys} for name, text in ARTICLES.items()}
    return SeedEmbedder(two_readers(), rules).make(book_of(**seeds).snapshot())


@pytest.mark.parametrize("most", [1, 2, 10])
@pytest.mark.parametrize("reader", ["read", "skim"])
def test_a_link_matches_at_any_score_and_is_listed_first(most: int, reader: Reader) -> None:
    rules = replace(RULES, reader=reader)
    plain, seeds = linked_seeds(replace(rules, links=False)), linked_seeds(rules)
    texts = [*background(60), *ARTICLES.values(), *ARTICLES.values()]
    posts = [Post(str(n), "plain", text) for n, text in enumerate(texts)]
    for n in range(0, len(texts), 3):  # two links each
        names = [*ARTICLES][n % 4], [*ARTICLES][(n + 1) % 4]
        posts[n] = Post(str(n), "plain", texts[n], links=tuple(PAGES[name] for name in names))
    linked = linked_pairs(posts, seeds.links, np.zeros(len(posts), np.int64))
    assert len(linked) == 2 * len(range(0, len(texts), 3))
    assert not len(linked_pairs(posts, plain.links, np.zeros(len(posts), np.int64)))

    enc, times = two_readers(), np.zeros(len(texts), np.int64)
    Q, P = enc.skim(texts), enc.posts(texts)
    exact = (Q if reader == "skim" else P).similarity(seeds.embeddings)
    without = PostMatcher(reading(enc), plain, MatchOptions()).match(texts, Q, times)
    result = PostMatcher(reading(enc), seeds, MatchOptions(most=most)).match(
        texts, Q, times, linked
    )
    expected = np.zeros(exact.shape, bool)
    expected[without.pairs.posts, without.pairs.seeds] = True
    by_link = np.zeros(exact.shape, bool)
    by_link[tuple(linked.T)] = True
    assert (by_link & ~expected).any()
    expected |= by_link
    assert result.pairs.counts.tolist() == expected.sum(axis=1).tolist()
    assert result.pairs.hits.tolist() == expected.sum(axis=0).tolist()
    listed = []
    for post in range(len(texts)):
        ranked = sorted(
            np.flatnonzero(expected[post]), key=lambda s: (not by_link[post, s], -exact[post, s], s)
        )
        chosen = sorted(ranked[:most], key=lambda s: (-exact[post, s], s))
        listed += [(post, seed, exact[post, seed], by_link[post, seed]) for seed in chosen]
    pairs = result.pairs
    assert pairs.by_link is not None
    columns = pairs.posts, pairs.seeds, pairs.scores, pairs.by_link
    assert list(zip(*(c.tolist() for c in columns), strict=True)) == listed


def test_a_post_with_a_link_is_no_near_miss_and_expiry_and_pause_hold() -> None:
    seeds = linked_seeds(expires_at="2026-01-01T00:00:00Z")
    post = Post("1", "plain", "x", links=(PAGES["flood"],))
    end = int(seeds.expiry[0])
    assert len(linked_pairs([post], seeds.links, np.array([end - 1]))) == 1
    assert len(linked_pairs([post], seeds.links, np.array([end]))) == 0
    assert len(linked_seeds(paused=True).links.pages) == 0

    texts = [*background(300), *ARTICLES.values()]
    embedder = SeedEmbedder(two_readers(), RULES)
    book = book_of(**{n: {"text": t, "url": PAGES[n]} for n, t in ARTICLES.items()})
    seeds = embedder.make(book.snapshot())
    edges = NearWatch(embedder.automatic).edges(seeds)
    matcher = PostMatcher(reading(two_readers()), seeds, MatchOptions(edges=edges))
    Q, times = two_readers().skim(texts), np.zeros(len(texts), np.int64)
    nears = matcher.match(texts, Q, times).pairs.nears
    assert nears is not None
    near = int(nears.posts[0])
    linked = np.array([[near, 0]])
    others = matcher.match(texts, Q, times, linked).pairs.nears
    assert others is not None
    assert others.posts.tolist() == nears.posts[nears.posts != near].tolist()


def test_a_profile_stands_for_the_pages_of_its_seeds() -> None:
    book = book_of(**{n: {"text": t, "url": PAGES[n], "event": "e"} for n, t in ARTICLES.items()})
    replaced = {name: ARTICLES[name] for name in ("flood", "raid")}
    value = profile_value(
        "e", replaced, vectors=vector_of(list(replaced.values()), enc=two_readers()).encode(),
        model=two_readers().digest,
    )  # fmt: skip
    book.put(b"profile|e", value)
    seeds = SeedEmbedder(two_readers(), RULES).make(book.snapshot())
    ids = [seed.id for seed in seeds.seeds]
    found = {page: [ids[row] for row, _ in linked] for page, linked in seeds.links.pages.items()}
    assert found == {
        "news.example.org/flood": ["profile|e"], "news.example.org/raid": ["profile|e"],
        "news.example.org/game": ["game"], "news.example.org/pets": ["pets"],
    }  # fmt: skip


def test_a_record_names_a_link_and_a_post_without_words_matches_by_it() -> None:
    seeds = linked_seeds()
    pipeline = Pipeline(two_readers(), PostRules("plain"))
    messages = [
        mail("1", PAGES["game"] + "?utm_source=x"), mail("2", "https://other.example/page", 1),
        mail("3", ARTICLES["game"], 2),
    ]  # fmt: skip
    outcome = pipeline.run(messages, seeds, lambda: "2026-01-01T00:00:00.000Z")
    records = [json.loads(record.value or b"") for record in outcome.records]
    assert [(r["post"]["id"], r["matches"][0].get("link")) for r in records] == [
        ("1", True), ("3", None),
    ]  # fmt: skip
    assert records[0]["matches"][0]["score"] == 0
    assert (outcome.linking, outcome.passed_over["no_words"]) == (1, 1)
    taught = [post.id for posts, _ in pipeline.posts_in(messages, seeds) for post in posts]
    assert taught == ["3"]


def test_descriptions_and_cards_are_compared_as_the_configuration_lists_them() -> None:
    seeds, storm = linked_seeds(), ARTICLES["flood"]
    message = mail("1", "look", 0, alt=["a cat"], card={"title": storm, "description": "city"})
    for parts, text in {
        ("text", "alt", "card"): f"look\na cat\n{storm}\ncity", ("alt",): "a cat",
        ("text",): "look", ("card",): f"{storm}\ncity",
    }.items():  # fmt: skip
        pipeline = Pipeline(two_readers(), PostRules("plain"), RecordRules(compare=parts))
        [(posts, vectors)] = pipeline.posts_in([message], seeds)
        assert posts[0].text == text
        assert same_rows(vectors, two_readers().skim([text]))
        for record in pipeline.run([message], seeds, lambda: "").records:
            content = json.loads(record.value or b"")
            assert content["post"]["text"] == "look"
            best = content["matches"][0]
            identity = ["plain", "1", text, best["seed_id"], best["seed_version"], content["model"]]
            assert best["match_id"] == json_digest(identity)[:32]
