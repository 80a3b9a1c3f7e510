import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from encoder.errors import InputError
from tests.train.folders import folder, read
from train.data.corpus import is_training, read_corpus
from train.data.readers import SkippedRows, copy_key, pair_sets, share, split_of, split_pairs
from train.languages.gather import SourceTexts, gather
from train.languages.sources import Clones, Form, TextSource
from train.languages.texts import HEADLINES, choose_texts, make_crisis, rows, sentences, shuffle

ITALIAN = [f"Il fiume numero {i} ha allagato la città stanotte" for i in range(90)]
ENGLISH = [f"The river number {i} has flooded the town tonight" for i in range(90)]
JUDGED = ("Questa frase giudica e non insegna mai", "This sentence judges and never teaches")


def source(form: Form = "lines", **how: Any) -> TextSource:
    defaults = {"repo": "a/b", "commit": "0" * 40, "licence": "", "use": "sentences", "files": {}}
    return TextSource(form=form, **(defaults | how))


def repository(home: Path, name: str, files: dict[str, str]) -> str:
    made = home / name
    for path, text in files.items():
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_text(text, "utf-8")
    environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull}
    me = ["-c", "user.name=a", "-c", "user.email=a@b.c"]

    def git(*words: str) -> str:
        command = ["git", "-C", str(made), *me, *words]
        return subprocess.run(
            command, check=True, capture_output=True, text=True, env=environment
        ).stdout

    git("init", "--quiet")
    git("config", "uploadpack.allowFilter", "true")
    git("config", "uploadpack.allowAnySHA1InWant", "true")
    git("add", ".")
    git("commit", "--quiet", "--message=all")
    return git("rev-parse", "HEAD").strip()


@pytest.fixture(scope="module")
def gathered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("gathered")
    data = folder(root / "data")
    commit = repository(root / "home", "one/texts", {
        "it.txt": "\n".join([*ITALIAN[:60], JUDGED[0], ITALIAN[3], "breve"]),
        "pairs.it": "\n".join([*ITALIAN[60:], JUDGED[0], "Altra frase con lo stesso originale"]),
        "pairs.en": "\n".join([*ENGLISH[60:], "Some other sentence of English", JUDGED[1]]),
        "pud.it": f"# sent_id = n1\n# text = {JUDGED[0]}\n1\tQuesta\n",
        "pud.en": f"# sent_id = n1\n# text = {JUDGED[1]}\n1\tThis\n",
        "crisis.csv": "id,text,from,label\n1,Il fiume è in piena,Media,Related and informative\n"
        "2,la mia strada è un lago,Eyewitness,Related and informative\n3,ciao,Media,Not related\n",
        "sib.tsv": "index_id\tcategory\ttext\n7\tsports\tUna \"corsa\" di tremila metri\n",
    })  # fmt: skip
    origin: dict[str, Any] = {"repo": "one/texts", "commit": commit, "licence": "CC0"}
    parallel, topics = ("pairs.it", "pairs.en"), ["index_id", "category", "text"]
    sources = [
        TextSource(**origin, **how)
        for how in (
            {"use": "posts", "form": "lines", "files": {"it": ["it.txt"]}},
            {"use": "parallel", "form": "lines", "files": {"it": [parallel]}},
            {"use": "originals", "form": "conllu", "files": {"it": ["pud.it"], "en": ["pud.en"]}},
            {"use": "topics", "form": "table", "fields": topics, "files": {"it": ["sib.tsv"]}},
            {"use": "crises", "form": "table", "fields": [1, 2, 3],
             "files": {"flood": ["crisis.csv"]}},
        )
    ]  # fmt: skip
    clones = Clones(root / "clones", f"file://{root}/home/")
    gather(SourceTexts(sources, clones), data, root / "out")
    return data, root / "out"


def test_posts_are_unique_and_hold_no_evaluation_text(gathered: tuple[Path, Path]) -> None:
    posts = read(gathered[1] / "tweets/it.jsonl.gz")
    assert {row["text"] for row in posts} == set(ITALIAN[:60])
    assert len(posts) == 60
    assert {row["lang"] for row in posts} == {"it"}


def test_pairs_are_sentences_with_their_originals_of_the_train_split(
    gathered: tuple[Path, Path],
) -> None:
    pairs = read(gathered[1] / "pairs/parallel.jsonl.gz")
    both = zip(ITALIAN[60:], ENGLISH[60:], strict=True)
    expected = {
        (text, original) for text, original in both if split_of(copy_key(original)) == "train"
    }
    assert 10 < len(expected) < 30
    assert {(row["post"], row["article"]) for row in pairs} == expected
    claims = [row["article"] for row in read(gathered[1] / "pairs/parallel_claims.jsonl.gz")]
    assert set(claims) == {text for pair in expected for text in pair}
    assert len(claims) == len(set(claims))


def test_evaluation_texts_are_files_of_their_own(gathered: tuple[Path, Path]) -> None:
    originals = read(gathered[1] / "judged/originals.jsonl.gz")
    assert [(row["id"], row["lang"], row["text"]) for row in originals] == [
        ("n1", "it", JUDGED[0]),
        ("n1", "en", JUDGED[1]),
    ]
    assert read(gathered[1] / "judged/topics.jsonl.gz") == [
        {"id": "7", "lang": "it", "topic": "sports", "text": 'Una "corsa" di tremila metri'}
    ]


def test_crises_are_a_folder_of_their_own(gathered: tuple[Path, Path]) -> None:
    crises = gathered[1] / "judged/crises"
    assert [(row["label"], row["text"]) for row in read(crises / "crisis/posts.jsonl.gz")] == [
        ("on-topic", "la mia strada è un lago"),
        ("off-topic", "ciao"),
    ]
    (article,) = read(crises / "crisis/seed_articles.jsonl.gz")
    assert article == {"event": "flood", "article": "Il fiume è in piena"}
    assert read(crises / "tweets/it.jsonl.gz") == read(gathered[1] / "tweets/it.jsonl.gz")
    assert "flood" not in {row["lang"] for row in read(gathered[1] / "pairs/parallel.jsonl.gz")}


def test_english_pairs_and_crises_stay_as_they_are(gathered: tuple[Path, Path]) -> None:
    data, out = gathered
    for part in ("pairs", "crisis"):
        for file in (data / part).iterdir():
            assert (out / part / file.name).read_bytes() == file.read_bytes()
    held = split_pairs(dict(pair_sets(data, SkippedRows()))["small"])["test"]
    assert held
    assert not set(held) & set(read_corpus(out, SkippedRows()).pairs)


def test_a_second_run_fetches_nothing_and_writes_the_same(
    gathered: tuple[Path, Path], tmp_path: Path
) -> None:
    data, out = gathered
    clones = Clones(out.parent / "clones", "file:///nowhere/")
    commit = (out.parent / "home/one/texts/.git/refs/heads").iterdir().__next__().read_text()
    one = TextSource(
        repo="one/texts", commit=commit.strip(), licence="", use="posts", form="lines",
        files={"it": ["it.txt"]},
    )  # fmt: skip
    gather(SourceTexts([one], clones), data, tmp_path)
    again = (tmp_path / "tweets/it.jsonl.gz").read_bytes()
    gather(SourceTexts([one], clones), data, tmp_path)
    assert (tmp_path / "tweets/it.jsonl.gz").read_bytes() == again


def test_a_missing_repository_is_refused_in_one_line(tmp_path: Path) -> None:
    clones = Clones(tmp_path / "clones", f"file://{tmp_path}/none/")
    with pytest.raises(InputError, match=r"a\+b: git fetch failed .*delete the clone") as caught:
        clones.read(source(), "x")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "clones/a+b").exists()


def test_without_git_the_command_is_refused_in_one_line(tmp_path: Path) -> None:
    none = os.environ | {"PATH": str(tmp_path)}
    options = ["--data", str(tmp_path), "--out", str(tmp_path / "out")]
    command = [sys.executable, "-m", "train.languages.gather", *options]
    done = subprocess.run(command, capture_output=True, text=True, env=none, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("newsift: git: cannot be started")
    assert done.stderr.count("\n") == 1


def test_json_is_read_whole_or_by_lines_however_deep() -> None:
    fields = source("json", fields=["context", "question"])
    document = {"data": [{"paragraphs": [{"context": "c", "qas": [{"question": "q", "id": "i"}]}]}]}
    assert list(rows(fields, "a.json", json.dumps(document).encode())) == [("c",), ("q",)]
    lines = b'{"question": "one"}\n{"question": "two"}\n'
    assert list(rows(fields, "a.json", lines)) == [("one",), ("two",)]


def test_long_texts_are_cut_into_sentences() -> None:
    assert sentences("Kurz. Ganz kurz.") == ["Kurz. Ganz kurz."]
    long = "Ein Satz. " * 30
    assert sentences(long.strip()) == ["Ein Satz."] * 30
    assert len(list(sentences("水が来た。" * 50))) == 51


def test_chosen_texts_are_unchanged() -> None:
    texts = [f"A post  with two spaces number {i}" for i in range(200)]
    result = choose_texts([*texts, "a POST with two spaces number 7!", "short"], "en", set(), 150)
    assert len(result) == 150
    assert set(result) < set(texts)
    everyday = sum(map(is_training, result)) / 150
    assert abs(everyday - 0.4) < 0.15
    assert list(shuffle(texts)) == sorted(texts, key=lambda text: share(f"drawn {text}"))


RELATED, LESS, NOT = "Related and informative", "Related - but not informative", "Not related"


def test_the_first_headlines_of_the_media_are_the_article() -> None:
    rows = [
        (" Tweet Text", " Information Source", " Informativeness"),
        ("RT @paper: The river is over its banks http://t.co/x", "Media", RELATED),
        ("the river is over its banks!", "Outsiders", RELATED),
        ("no water here", "Media", NOT),
        ("thoughts with the town", "Media", LESS),
        ("my street is a lake", "Eyewitness", f" {RELATED}"),
        ("what is this", "Not labeled", "Not applicable"),
        ("http://t.co/alone", "Media", RELATED),
    ]
    more = [(f"headline number {i} of the town", "Media", RELATED) for i in range(HEADLINES + 2)]
    result = make_crisis([*rows, *more])
    assert result.headlines[0] == "The river is over its banks"
    assert result.headlines[1:] == [text for text, _, _ in more[: HEADLINES - 1]]
    late = [text for text, _, _ in more[HEADLINES - 1 :]]
    assert result.on == ["thoughts with the town", "my street is a lake", *late]
    assert result.off == ["no water here"]
