import csv
import gzip
import io
from itertools import chain, combinations, count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder.errors import InputError
from encoder.model.config import Side
from tests.train import tiny
from tests.train.data_folder import EVENTS, THINGS, read, training_folder, write
from tests.train.tiny import reader
from train.data.corpus import Corpus, HeldOutKeys, is_training, read_corpus, read_everyday
from train.data.readers import (
    CrisisPost,
    Pair,
    SkippedRows,
    TrainingArticle,
    copy_key,
    files,
    read_crisis_posts,
    read_markdown,
    read_pairs,
    read_posts,
    share,
    split_of,
    split_of_event,
    split_pairs,
    story_key,
    without_copies,
    year_of,
)
from train.loop.datasets import Dataset, concat_rows, make_datasets
from train.protocol.sets import HELD_OUT_FROM, read_background
from train.teacher.minilm import chunks
from train.teacher.star import texts_to_embed

NOISE = ("{}", "RT @someone: {}", "{} https://t.co/abc", "@a {}!!", "{} ", "{} #")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return training_folder(tmp_path_factory.mktemp("data"))


def held(data: Path) -> tuple[set[str], set[str], set[str]]:
    """Posts, titles and articles of dev and test, found by reading the files once more."""
    posts, titles, articles = set[str](), set[str](), set[str]()
    for name in ("small", "checked"):
        for row in read(data / "pairs" / f"{name}.jsonl.gz"):
            if split_of(story_key(TrainingArticle(row["title"], row["article"]))) != "train":
                posts.add(row["post"])
                titles.add(row["title"])
                articles.add(row["article"])
    for row in read(data / "crisis" / "events.jsonl"):
        if split_of_event(row["event"]) != "train":
            posts.add(row["text"])
    return posts, titles, articles


def test_no_text_of_dev_and_test_is_trained_on(data: Path) -> None:
    posts, titles, articles = held(data)
    assert len(posts) > 30
    assert {split_of_event(event) for event in EVENTS} == {"train", "dev", "test"}
    result = read_corpus(data, SkippedRows())
    trained = [*result.posts, *(pair.post for pair in result.pairs)]
    assert not {copy_key(post) for post in trained} & {copy_key(post) for post in posts}
    stories = [*result.articles, *result.claims, *(pair.story for pair in result.pairs)]
    assert not {title for title, _ in stories} & titles
    assert not {text for _, text in stories} & articles
    assert any(f"of {EVENTS[2]} " in post for post in result.posts)
    assert len(result.pairs) > 60
    assert len(result.claims) > len(THINGS)
    assert len(result.articles) > 40


def test_copies_of_held_out_texts_are_left_out_of_every_file(tmp_path: Path) -> None:
    data = training_folder(tmp_path)
    posts, titles, _ = held(data)
    before = read_corpus(data, SkippedRows())
    again = [{"text": form.format(post)} for post in posts for form in NOISE]
    again += [{"text": title.upper()} for title in titles]
    write(data / "tweets" / "again.jsonl", again)
    stolen = [{"title": f"{title}!", "article": "another text"} for title in titles]
    write(data / "articles" / "stolen.jsonl", stolen)
    paired = [{"post": f"{p} @b", "title": f"new {i}", "article": f"new {i}"}
              for i, p in enumerate(sorted(posts))]  # fmt: skip
    write(data / "pairs" / "zz.jsonl", paired)
    after = read_corpus(data, SkippedRows())
    assert set(after.articles) == set(before.articles)
    assert set(after.posts) == set(before.posts)
    assert len(after.pairs) == len(before.pairs)


def test_sentences_come_from_training_articles(data: Path) -> None:
    result = read_corpus(data, SkippedRows())
    every = {text: text.split(". ") for _, text in result.articles if text.count(". ") == 10}
    assert len(every) == 40
    for text, parts in every.items():
        mine = {one.rstrip(".") for one in result.sentences if one in text}
        assert mine == {part.rstrip(".") for part in parts if 6 <= len(part.split()) <= 45}
        assert len(mine) > 8
    assert len(set(result.sentences)) == len(result.sentences)
    assert set(result.sentences) <= set(texts_to_embed(read_corpus(data, SkippedRows())))


def test_a_sentence_equal_to_a_held_out_post_is_left_out(tmp_path: Path) -> None:
    data = training_folder(tmp_path)
    quote = "All who live by the river must leave at once"
    article = f"It was said by the mayor today. {quote}! More is to come of it."
    write(data / "articles" / "quoting.jsonl", [{"title": "quoted", "article": article}])
    assert f"{quote}!" in read_corpus(data, SkippedRows()).sentences
    title = next(f"t{i}" for i in count() if split_of(f"t{i}") == "test")
    held_out = {"post": f"RT @mayor: {quote}", "title": title, "article": "of the test split"}
    write(data / "pairs" / "held.jsonl", [held_out])
    assert f"{quote}!" not in read_corpus(data, SkippedRows()).sentences


@given(st.lists(st.text(max_size=20), max_size=5), st.text(max_size=20), st.sampled_from(NOISE))
def test_near_copies_of_any_held_out_text_are_recognized(
    posts: list[str], one: str, form: str
) -> None:
    away = HeldOutKeys([], [*posts, one], [TrainingArticle(one, "the body of it")])
    copy = form.format(one)
    assert bool(copy_key(copy)) == (not away.allows_post(copy))
    assert not away.allows_story(TrainingArticle("x", "the body of it!"))


def test_everyday_posts_either_train_or_evaluate(data: Path) -> None:
    every = {row["text"] for row in read(data / "tweets" / "everyday.jsonl.gz")}
    evaluating = read_everyday(data, SkippedRows())
    assert evaluating == {text for text in every if not is_training(text)}
    training = every.intersection(read_corpus(data, SkippedRows()).posts)
    assert training == every - evaluating


def test_more_posts_are_no_copies_of_everyday_posts_that_evaluate(tmp_path: Path) -> None:
    everyday = [{"text": f"an everyday post, number {i}"} for i in range(40)]
    write(tmp_path / "tweets" / "a.jsonl", everyday)
    before = read_corpus(tmp_path, SkippedRows()).posts
    more = [{"text": f"RT @x: {row['text']}!"} for row in everyday if not is_training(row["text"])]
    assert more
    write(tmp_path / "posts" / "b.jsonl", [*everyday, *more, {"text": "another post"}])
    assert read_corpus(tmp_path, SkippedRows()).posts == [*before, "another post"]


def test_the_background_holds_no_copy_of_a_post_that_trains_or_sets_thresholds(
    tmp_path: Path,
) -> None:
    pairs = [(f"post number {i}", f"RT @x: post number {i}") for i in range(200)]
    wordless = ["!" * i for i in range(1, 40)]
    texts = [*chain(*pairs), *wordless]
    write(tmp_path / "tweets" / "a.jsonl", [{"text": text} for text in texts])
    evaluating = {text for text in texts if share(text) >= HELD_OUT_FROM}
    both = set(chain(*(pair for pair in pairs if evaluating.issuperset(pair))))
    assert both
    assert evaluating.intersection(wordless)
    assert set(read_background(tmp_path, SkippedRows())) == both | evaluating.intersection(wordless)


def test_each_text_has_its_own_tokens_and_teacher_vector(data: Path, tmp_path: Path) -> None:
    result = read_corpus(data, SkippedRows())
    teacher = tiny.taught(result, tmp_path / "star")
    datasets = make_datasets(result, reader(), teacher)
    for i in (0, 5, len(result.posts) - 1):
        assert tokens(datasets.posts, i) == ids(result.posts[i], Side.POST)
        own = teacher.store.get([result.posts[i]])[0]
        assert datasets.posts.teacher is not None
        assert np.allclose(datasets.posts.teacher[i], own / np.linalg.norm(own), atol=1e-6)
    for post, article in datasets.own.tolist():
        pair = result.pairs[post]
        assert tokens(datasets.pair_posts, post) == ids(pair.post, Side.POST)
        assert tokens(datasets.pair_articles, article) == ids(
            (pair.story.title, pair.story.text), Side.ARTICLE
        )
    headed = [(title, text) for title, text in result.articles if title in set(result.posts)]
    assert len(headed) == len(datasets.headlines) > 20
    for body, ((title, text), post) in enumerate(zip(headed, datasets.headlines, strict=True)):
        assert result.posts[post] == title
        assert tokens(datasets.bodies, body) == ids(text, Side.ARTICLE)


def tokens(dataset: Dataset, i: int) -> list[int]:
    return list(dataset.tokens.ids[dataset.tokens.offsets[i] : dataset.tokens.offsets[i + 1]])


def ids(text: str | tuple[str, str], side: Side) -> list[int]:
    cap = 32 if side is Side.POST else 128
    return [one for word in reader().words(text, side) for one in word.ids][:cap]


def test_an_article_learns_from_its_chunks_the_lead_twice(tmp_path: Path) -> None:
    long = " ".join(f"w{i}" for i in range(400))
    corpus = Corpus([], [TrainingArticle("title", long)], [], [])
    teacher = tiny.taught(corpus, tmp_path / "star")
    parts = chunks("title", long)
    unit = [row / np.linalg.norm(row) for row in teacher.store.get(parts)]
    expected = unit[0] + sum(unit)
    result = make_datasets(corpus, reader(), teacher).articles.teacher
    assert result is not None
    assert np.allclose(result[0], expected / np.linalg.norm(expected), atol=1e-5)


def test_texts_are_cut_and_tokens_dropped_at_random(data: Path) -> None:
    dataset = make_datasets(read_corpus(data, SkippedRows()), reader(), None).articles
    rng = np.random.default_rng(0)
    chosen = np.array([3, 0, 3])
    whole, head = (concat_rows((dataset, chosen)).take(0, rng, cap) for cap in (None, 10))
    assert list(whole.ids) == [*tokens(dataset, 3), *tokens(dataset, 0), *tokens(dataset, 3)]
    assert list(head.ids) == [one for at in (3, 0, 3) for one in tokens(dataset, at)[:10]]
    left = len(dataset.take(0.25, rng).ids) / len(dataset.take(0, rng).ids)
    assert 0.7 < left < 0.8
    assert list(concat_rows((dataset, np.array([], np.int64))).take(0.5, rng).offsets) == [0]


ROW = {"post": "a post", "title": "A title", "article": "A text.", "article_id": 7}
PAIR = Pair("a post", TrainingArticle("A title", "A text."))


@pytest.mark.parametrize(
    "name", ["p.jsonl", "p.jsonl.gz", "p.csv", "p.tsv", "p.csv.gz", "p.tsv.gz"]
)
def test_pairs_are_read_from_json_lines_and_tables(tmp_path: Path, name: str) -> None:
    skipped, row = SkippedRows(), ROW | {"article": 'two\nlines, "quoted"'}
    if "json" in name:
        write(tmp_path / "pairs" / name, [row])
    else:
        out = io.StringIO(newline="")
        table = csv.DictWriter(out, list(ROW), delimiter="," if "csv" in name else "\t")
        table.writeheader()
        table.writerow(row)
        content = out.getvalue().encode()
        (tmp_path / "pairs").mkdir()
        (tmp_path / "pairs" / name).write_bytes(
            gzip.compress(content) if name.endswith(".gz") else content
        )
    expected = [Pair("a post", TrainingArticle("A title", 'two\nlines, "quoted"'))]
    assert list(read_pairs(files(tmp_path, "pairs")["p"], skipped)) == expected
    assert skipped.count == 0


def test_no_file_of_a_folder_is_lost(tmp_path: Path) -> None:
    for name in ("day.1.jsonl", "day.2.jsonl.gz", "day_pool.csv", "notes.txt", ".day.3.jsonl"):
        write(tmp_path / "pairs" / name, [])
    assert list(files(tmp_path, "pairs")) == ["day.1", "day.2", "day_pool"]
    write(tmp_path / "pairs" / "day.1.tsv.gz", [])
    with pytest.raises(InputError, match=r"day\.1\.tsv\.gz: .*day\.1\.jsonl"):
        files(tmp_path, "pairs")


@pytest.mark.parametrize("damage", ["cut short", "no gzip", "bad data"])
def test_a_damaged_file_is_refused_by_its_name(tmp_path: Path, damage: str) -> None:
    file = write(tmp_path / "p.jsonl.gz", [ROW] * 9)
    packed = file.read_bytes()
    contents = {"cut short": packed[:-9], "no gzip": b"{}\n", "bad data": packed[:10] + b"\xff" * 9}
    file.write_bytes(contents[damage])
    with pytest.raises(InputError, match=r"p\.jsonl\.gz: cannot be read to its end"):
        list(read_pairs(file, SkippedRows()))
    with pytest.raises(InputError, match=r"p\.jsonl\.gz: cannot be read to its end"):
        read_markdown(file)


def test_half_of_a_surrogate_pair_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text(r'{"text": "\ud83d\ude00 cut \ud83d"}' + "\n")
    assert list(read_posts(file, SkippedRows())) == ["\U0001f600 cut \ufffd"]


def test_unusable_rows_are_counted_and_named(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    good = '{"post": "a post", "title": "A title", "article": "A text.", "article_id": 7}\n'
    bad = ["no json\n", "[1]\n", '{"post": "x"}\n', '{"post": 3, "article": "y"}\n', "\n"]
    odd = ['{"post": "x", "article": "y", "title": 5}\n']
    file.write_text(good + "".join(bad) + good + "".join(odd))
    passed = SkippedRows()
    assert list(read_pairs(file, passed)) == [PAIR, PAIR]
    assert passed.count == 5
    assert passed.examples[0] == "p.jsonl:2: is not a JSON object"
    assert passed.examples[2] == "p.jsonl:4: has no text under 'article'"
    assert passed.examples[-1] == "p.jsonl:8: has a 'title' that is not text"
    file.write_text('{"tweet": "a"}\n{"text": " "}\n{"text": "a"}\n')
    assert list(read_posts(file, passed)) == ["a"]
    assert passed.count == 7


@pytest.mark.parametrize(
    ("post_id", "year"),
    [("769930643639824385", 2016), ("262596552399396864", 2012), ("test-0", None), (7, None),
     ("12345", None), ("٧٦٩٩٣٠٦٤٣٦٣٩٨٢٤٣٨٥", None), (None, None)],
)  # fmt: skip
def test_the_id_of_a_post_on_x_tells_its_year(post_id: object, year: int | None) -> None:
    assert year_of(post_id) == year


def test_an_article_in_markdown_has_its_title_in_a_heading(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("# A title\n\nSome text.\n")
    assert read_markdown(file) == TrainingArticle("A title", "Some text.")
    file.write_text("No heading.\nSome text.\n")
    assert read_markdown(file) == TrainingArticle("", "No heading.\nSome text.")


def test_crisis_posts_have_two_labels(tmp_path: Path) -> None:
    rows = [{"event": "e", "text": "t", "label": label} for label in ("on-topic", "off-topic", "?")]
    passed = SkippedRows()
    result = list(read_crisis_posts(write(tmp_path / "c.jsonl", rows), passed))
    assert result == [CrisisPost("e", "t", True), CrisisPost("e", "t", False)]
    assert "neither on-topic nor off-topic" in passed.examples[0]


def pairs(count: int) -> list[Pair]:
    return [Pair(f"post {i}", TrainingArticle(f"title {i}", f"text {i}")) for i in range(count)]


def test_the_split_of_a_key_never_changes() -> None:
    drawn = [split_of(f"title {i}") for i in range(12)]
    assert drawn == [
        "dev", "test", "train", "dev", "test", "test",
        "dev", "train", "train", "test", "train", "train",
    ]  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=60))
def test_splits_share_no_text_and_lose_only_copies(drawn: list[tuple[int, int]]) -> None:
    given_pairs = [
        Pair(f"RT @user{i}: post {p} https://t.co/{i}", TrainingArticle(f"Title {s}!", f"text {s}"))
        for i, (p, s) in enumerate(drawn)
    ]
    splits = split_pairs(given_pairs)
    posts = {
        name: {copy_key(pair.post) for pair in pairs_left} for name, pairs_left in splits.items()
    }
    stories = {
        name: {story_key(pair.story) for pair in pairs_left} for name, pairs_left in splits.items()
    }
    for a, b in combinations(splits, 2):
        assert not posts[a] & posts[b]
        assert not stories[a] & stories[b]
    pairs_left = [pair for split in splits.values() for pair in split]
    for lost in (pair for pair in given_pairs if pair not in pairs_left):
        alike = (copy_key(lost.post), copy_key(lost.story.text))
        assert any(
            copy_key(p.post) == alike[0] or copy_key(p.story.text) == alike[1] for p in pairs_left
        )


def test_links_mentions_and_marks_do_not_distinguish_copies() -> None:
    assert copy_key("RT @a: Flood in Calgary! https://t.co/x &amp; more") == copy_key(
        "flood in calgary more"
    )
    assert copy_key("flood @a in .@b_c: RT @d, calgary") == copy_key("flood in calgary")
    assert copy_key("flood in calgary") != copy_key("flood in canmore")


def test_copies_within_an_event_are_dropped() -> None:
    posts = [
        CrisisPost("a", "one", True), CrisisPost("a", "One https://t.co/1", False),
        CrisisPost("b", "one", True), CrisisPost("a", "two", True), CrisisPost("a", "@x", True),
    ]  # fmt: skip
    assert without_copies(posts) == [posts[0], posts[2], posts[3]]
