import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from encoder.errors import InputError
from tests.train.data_folder import folder, read
from train.data.corpus import read_corpus
from train.data.readers import SkippedRows, copy_key, share
from train.texts import gather
from train.texts.gather import MOST, data_keys, gather_texts, is_english, main
from train.texts.sources import Clones, Form, TextSource, read_sources
from train.texts.texts import choose_texts, rows, sentences, shuffle

TWEETS = [f"@friend the river number {i} has flooded our town http://t.co/{i}" for i in range(40)]
REUTERS = """-- UPDATE 2-River town {i} counts the cost of its flood
-- By A. Reporter

 PARIS (Reuters) - The mayor of town {i} has asked for help. {long}
 (Reporting by A. Reporter)
"""
LONG = "Nobody in the town had expected so much water from so small a river, number {i}. "


def source(form: Form = "lines", **how: Any) -> TextSource:
    defaults = {"repo": "a/b", "commit": "0" * 40, "licence": "", "files": {}}
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
    git("config", "uploadpack.allowAnySHA1InWant", "true")
    git("add", ".")
    git("commit", "--quiet", "--message=all")
    return git("rev-parse", "HEAD").strip()


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[TextSource], Clones]:
    root = tmp_path_factory.mktemp("texts")
    wire = {f"wire/2010/{i}": REUTERS.format(i=i, long=(LONG * 3).format(i=i)) for i in range(1, 6)}
    reddit = 'title,selftext\n"Is it raining, or is it me?","I have been wet for days."\n'
    tweets = "\n".join([*TWEETS, f"RT {TWEETS[3]}!", "no", "cut off in the middle of the…"])
    spanish = "Nueve desaparecidos tras el incendio del transbordador en Vigo\n"
    files = wire | {"reddit.csv": reddit, "tweets.txt": tweets, "spanish.txt": spanish}
    commit = repository(root / "home", "one/texts", files)
    body = r"^ (?:[^()\n]*\(Reuters\) - )?([^\s(].+)"
    hows: list[dict[str, Any]] = [
        {"form": "pattern", "pattern": r"\A-- UPDATE \d+-(.+)",
         "files": {"headlines": ["wire/*"]}},
        {"form": "pattern", "pattern": body, "files": {"sentences": ["wire/*/1", "wire/*/2"]}},
        {"form": "table", "fields": ["title", "selftext"], "files": {"reddit": ["reddit.csv"]}},
        {"form": "lines", "files": {"tweets": ["tweets.txt", "spanish.txt"]}},
        {"form": "lines", "files": {"spanish": ["spanish.txt"]}},
    ]  # fmt: skip
    sources = [source(**({"repo": "one/texts", "commit": commit} | how)) for how in hows]
    return sources, Clones(root / "clones", f"file://{root}/home/")


def test_each_kind_has_its_distinct_whole_texts(one: tuple[list[TextSource], Clones]) -> None:
    by_kind = gather_texts(*one, set())
    assert {copy_key(text) for text in by_kind["tweets"]} == set(map(copy_key, TWEETS))
    assert len(by_kind["tweets"]) == len(TWEETS)
    assert sorted(by_kind["headlines"]) == [
        f"River town {i} counts the cost of its flood" for i in range(1, 6)
    ]
    assert sorted(by_kind["sentences"]) == sorted(
        text
        for i in (1, 2)
        for text in (f"The mayor of town {i} has asked for help.", LONG.format(i=i).strip())
    )
    assert by_kind["spanish"] == ["Nueve desaparecidos tras el incendio del transbordador en Vigo"]
    assert by_kind["reddit"] == ["Is it raining, or is it me? I have been wet for days."]


def test_a_limit_takes_the_same_texts_whatever_the_order_of_the_sources(
    one: tuple[list[TextSource], Clones],
) -> None:
    sources, clones = one
    most = {"tweets": 7, "headlines": 2}
    some = gather_texts(sources, clones, set(), most)
    assert {kind: len(texts) for kind, texts in some.items()} == most
    shuffled = random.Random(1).sample(sources, len(sources))
    assert gather_texts(shuffled, clones, set(), most) == some


def test_nothing_occurs_in_the_data_folder(
    one: tuple[list[TextSource], Clones], tmp_path: Path
) -> None:
    data = folder(tmp_path)
    more = tmp_path / "articles"
    more.mkdir(exist_ok=True)
    story = " ".join(["Some words come before, in a sentence of its own."] * 4)
    headline = "River town 4 counts the cost of its flood."
    (more / "x.csv").write_text(f'article\n"{story} {headline}"\nRT {TWEETS[5]}\n', "utf-8")
    by_kind = gather_texts(*one, data_keys(data))
    assert len(by_kind["headlines"]) == 4
    assert set(by_kind["tweets"]) == set(TWEETS) - {TWEETS[5]}


def test_the_command_writes_a_file_for_the_posts_of_a_folder(
    one: tuple[list[TextSource], Clones], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, clones = one
    monkeypatch.setattr(gather, "read_sources", lambda _: sources)
    monkeypatch.setattr(gather, "Clones", lambda _: clones)
    data = folder(tmp_path / "data")
    out = data / "posts" / "more.jsonl.gz"
    out.parent.mkdir()
    options = ["--data", os.fspath(data), "--out", os.fspath(out)]
    contents = []
    for _ in range(2):
        result = CliRunner().invoke(main, options, catch_exceptions=False)
        assert "tweets: 40\nheadlines: 5\nsentences: 4\nreddit: 1\nspanish: 1\n" in result.output
        contents.append(out.read_bytes())
    assert contents[0] == contents[1]
    texts = [row["text"] for row in read(out)]
    assert len(texts) == len(set(texts)) == 51
    assert set(texts) <= set(read_corpus(data, SkippedRows()).posts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@a @b the bridge is closed since noon https://t.co/abcdefgh", True),
        ("Euro-zone troubles roil stocks", True),
        ("the bridge is closed", True),
        ("bridge is closed", False),
        ("the bridge is closed since noon and… https://t.co/abcdefgh", False),
        ("the bridge is closed since noon...", False),
        ("le pont du village est ferme depuis ce matin a cause de la crue", False),
        ("мост is closed на весь день с утра", False),
        ("the bridge isnâ\x80\x99t open at this time of day", False),
        (r"So\u002c the bridge is closed since noon", False),
        ("$A 1.2 $B 3.4 $C 5.6 $D 7.8 are up by 5%", False),
    ],
)
def test_only_whole_english_texts_pass(text: str, expected: bool) -> None:
    assert is_english(text) == expected


def test_a_pattern_reads_its_first_group_at_each_line() -> None:
    how = source("pattern", pattern=r"^\d+\t(.+)$")
    assert list(rows(how, "a", b"1\tone\nnone\n22\ttwo two\n")) == [("one",), ("two two",)]


def test_a_path_that_matches_nothing_is_refused(one: tuple[list[TextSource], Clones]) -> None:
    sources, clones = one
    with pytest.raises(InputError, match=r"git archive failed .*nowhere"):
        list(clones.read_all(sources[0], "nowhere/*"))


def test_the_sources_have_every_kind() -> None:
    sources = read_sources(gather.SOURCES_FILE)
    assert {kind for each in sources for kind in each.files} == set(MOST)
    assert all(each.licence for each in sources)


def test_a_missing_repository_is_refused_in_one_line(tmp_path: Path) -> None:
    clones = Clones(tmp_path / "clones", f"file://{tmp_path}/none/")
    with pytest.raises(InputError, match=r"a\+b: git fetch failed .*delete the clone") as caught:
        list(clones.read_all(source(), "x"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "clones/a+b").exists()


def test_without_git_the_command_is_refused_in_one_line(tmp_path: Path) -> None:
    data, none = folder(tmp_path / "data"), os.environ | {"PATH": str(tmp_path)}
    options = ["--data", str(data), "--out", str(tmp_path / "out")]
    command = [sys.executable, "-m", "train.texts.gather", *options]
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


def test_chosen_texts_are_unchanged() -> None:
    texts = [f"A post  with two spaces number {i}" for i in range(200)]
    result = choose_texts([*texts, "a POST with two spaces number 7!", "short"], set(), 150)
    assert len(result) == 150
    assert set(result) < set(texts)
    assert list(shuffle(texts)) == sorted(texts, key=lambda text: share(f"drawn {text}"))
