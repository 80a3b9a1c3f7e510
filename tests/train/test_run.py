import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import encoder
from encoder.errors import InputError
from encoder.support.files import exclusive
from tests.encoder.small_model import LINES, exact_scores
from tests.encoder.small_transformer import write_run
from tests.train import tiny
from tests.train.data_folder import training_folder, write
from tests.worker.fake_command import Command, Outcome
from train.data.corpus import is_training, read_corpus
from train.data.readers import SkippedRows
from train.loop.checkpoint import Checkpoint
from train.loop.dev import dev_pairs
from train.model.encoders import BASELINE, ENCODERS, read_baseline
from train.protocol.metrics import ap_of
from train.recipe import RECIPES, parse, read_recipe
from train.run import read_background_posts
from train.teacher.star import StarTeacher

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return training_folder(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def star(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "star"
    tiny.taught(read_corpus(data, SkippedRows()), folder)
    return folder


class Trainings:
    def __init__(self, newsift: Command, data: Path, star: Path, folder: Path) -> None:
        self.newsift, self.data, self.star, self.folder = newsift, data, star, folder

    def __call__(self, *options: object, recipe: object = None, out: str = "model") -> Outcome:
        chosen = recipe or tiny.recipe(self.folder)
        given = ("--data", self.data, "--star", self.star, "--out", self.folder / out)
        return self.newsift("train", chosen, *given, *options)


@pytest.fixture
def train(newsift: Command, data: Path, star: Path, tmp_path: Path) -> Trainings:
    return Trainings(newsift, data, star, tmp_path)


def manifest(model: Path) -> dict[str, Any]:
    return dict(json.loads((model / "manifest.json").read_text()))


def test_a_recipe_and_a_folder_make_a_usable_model(train: Trainings, tmp_path: Path) -> None:
    done = train()
    assert done.code == 0, done.err
    enc = encoder.load(tmp_path / "model")
    assert done.out == f"{tmp_path / 'model'}: digest {enc.digest}\n"
    assert enc.thresholds(enc.articles(["a storm"]), 0.1).shape == (1,)
    figures = manifest(tmp_path / "model")["metrics"]["dev"]
    assert figures["mix"] == enc.model.mix
    assert {"score", "small mAP", "checked mAP", "event 1 AUC off"} <= set(figures)
    log = [json.loads(x) for x in (tmp_path / "model.run" / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log] == [8, 16, 24]
    assert all(set(line) == {"step", "losses", "dev"} for line in log)
    assert sum(line.startswith("step ") for line in done.err.splitlines()) == 3
    frequent = enc.model.vocabulary.lines()[len(LINES) :]
    assert len(frequent) == 4


TAUGHT = """
base: ast
articles: teacher
model: {dim: 12}
losses: {neighbours: 0.5, errors: 1}
batches: {articles: 0}
mix: [0]
"""


def test_the_teacher_can_read_the_articles(train: Trainings, tmp_path: Path) -> None:
    tiny.recipe(tmp_path)
    recipe = tmp_path / "taught.yaml"
    recipe.write_text(TAUGHT)
    done = train(recipe=recipe)
    assert done.code == 0, done.err
    enc = encoder.load(tmp_path / "model")
    small = dev_pairs(train.data, SkippedRows())[-1]
    read = StarTeacher(train.star).read_articles(small.stories)
    stories = replace(enc.articles(small.stories), dense=read)
    posts, figures = enc.posts(small.posts), manifest(tmp_path / "model")["metrics"]["dev"]
    taught, own = (
        ap_of(exact_scores(posts, rows), small.label)
        for rows in (stories, enc.articles(small.stories))
    )
    # Figures are of posts before they are stored in codes, which may exchange two ranks.
    assert abs(figures["small mAP"] - taught) < abs(figures["small mAP"] - own) / 4


def test_the_background_holds_posts_that_do_not_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "tweets" / "everyday.jsonl", ({"text": f"post {i}"} for i in range(300)))
    monkeypatch.setattr("train.run.BACKGROUND_POSTS", 80)
    posts = read_background_posts(tmp_path, SkippedRows())
    assert len(set(posts)) == 80
    assert not any(map(is_training, posts))


def test_too_few_everyday_posts_are_refused_with_the_rows_that_were_skipped(
    tmp_path: Path,
) -> None:
    write(tmp_path / "tweets" / "t.jsonl", [{"tweet": "a storm"}, {"text": "a flood"}])
    with pytest.raises(InputError, match=r"skipped rows: 1 \(t\.jsonl:1: .*'text'"):
        read_background_posts(tmp_path, SkippedRows())


def test_a_baseline_encoder_is_saved_and_evaluated(
    train: Trainings, tmp_path: Path, data: Path
) -> None:
    for kind in ("cnn", "mean"):
        done = train(recipe=tiny.recipe(tmp_path, kind), out=kind)
        assert done.code == 0, done.err
        baseline_model = read_baseline(tmp_path / kind)
        content = (tmp_path / kind / BASELINE).read_bytes()
        assert done.out.split()[-1] == hashlib.sha256(content).hexdigest()
        best = Checkpoint.read(tmp_path / f"{kind}.run" / "best.safetensors")
        assert best is not None
        for name, value in baseline_model.model.state_dict().items():
            assert torch.equal(value, best.tensors[name])
    train(out="ours")
    places = [tmp_path / name for name in ("ours", "cnn", "mean")]
    options = ("--data", data, "--no-peers", "--json", "--draws", 5, "--rate", 0.05)
    judged = train.newsift("evaluate", *places, *options, "--split", "all", "--mix", 0)
    assert judged.code == 0, judged.err
    pairs = json.loads(judged.out)[0]["figures"]
    assert list(pairs) == list(map(str, places))
    assert len({figures["mAP"] for figures in pairs.values()}) == 3


def test_word_vectors_out_of_a_file(train: Trainings, tmp_path: Path) -> None:
    glove = tmp_path / "glove.txt"
    rng = np.random.default_rng(0)
    words = ("storm", "flood", "river", "city", "the", "number", "no", "and")
    glove.write_text("".join(f"{w} {' '.join(map(str, rng.random(8)))}\n" for w in words))
    file = tmp_path / "words.yaml"
    file.write_text(
        "model: {dim: 8, heads: 2, head_dim: 4}\nlosses: {triplet: 1}\n"
        "batches: {pair_size: 16}\ntokens: {kind: words, vectors: none.txt}\n"
        "steps: {count: 4, judge_every: 2}\n"
    )
    assert train("--vectors", glove, recipe=file).code == 0
    assert encoder.load(tmp_path / "model").model.vocabulary.lines() == list(words)


def refused(done: Outcome, *message: str) -> None:
    """One line on standard error, and the code of what is refused."""
    lines = [line for line in done.err.splitlines() if line.startswith("newsift: ")]
    assert done.code == 2
    assert len(lines) == 1
    for part in message:
        assert part in lines[0]


def test_bad_options_are_refused_in_one_line(train: Trainings, tmp_path: Path) -> None:
    refused(train(recipe="papr"), "did you mean 'paper'")
    refused(train("--seed", 2**63), "seed")
    alone = ("--data", train.data, "--out", tmp_path / "model")
    refused(train.newsift("train", tiny.recipe(tmp_path), *alone), "--star", "learns from a star")
    write_run(tmp_path / "new")
    no_vector = "vector from the teacher", "train.transformer.embed"
    refused(train("--star", tmp_path / "new"), *no_vector)
    (tmp_path / "nothing").mkdir()
    refused(train("--data", tmp_path / "nothing"), "everyday posts")
    assert not (tmp_path / "model").exists()


def test_an_unusable_output_is_refused_before_the_first_step(
    train: Trainings, tmp_path: Path
) -> None:
    (tmp_path / "taken").mkdir()
    refused(train(out="taken"), "exists and is not a model directory")
    (tmp_path / "file").write_text("")
    refused(train(out="file/model"), "cannot be written")
    refused(train("--work", tmp_path / "file" / "run"), "cannot be made")
    assert not (tmp_path / "taken.run").exists()
    for out in ("/", "."):
        refused(train("--out", out), "exists and is not a model directory")
    for work in ("model", "model/run"):
        refused(train("--work", tmp_path / work), "--work", "outside")
    assert not (tmp_path / "model").exists()


def test_two_runs_do_not_share_a_folder(train: Trainings, tmp_path: Path) -> None:
    (tmp_path / "model.run").mkdir()
    with exclusive(tmp_path / "model.run" / ".lock"):
        refused(train(), "model.run", "another run", "--work")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "log.jsonl").write_text("mine")
    refused(train("--work", tmp_path / "notes"), "log.jsonl: is of no run", "--work")
    assert not (tmp_path / "model").exists()


def test_a_run_does_not_go_on_with_other_data(train: Trainings, tmp_path: Path) -> None:
    """Nor with another dev split, which decides when to stop."""
    assert train().code == 0
    train.data = shutil.copytree(train.data, tmp_path / "other")
    with (train.data / "crisis" / "events.jsonl").open("a") as events:
        events.write('{"event": "event 1", "text": "nothing else", "label": "off-topic"}\n')
    refused(train(), "model.run", "another data", "--work")


SHIPPED = sorted(file.stem for file in RECIPES.glob("*.yaml"))


@pytest.mark.parametrize("name", SHIPPED)
def test_every_recipe_that_ships_can_be_read(name: str) -> None:
    result = read_recipe(name)
    assert name not in ENCODERS or result.encoder == name
    assert result.digest == read_recipe(str(RECIPES / f"{name}.yaml")).digest


def test_a_recipe_overrides_its_base(tmp_path: Path) -> None:
    (tmp_path / "low.yaml").write_text("seed: 3\nsteps: {count: 7, rate: 0.5}\n")
    (tmp_path / "high.yaml").write_text("base: low\nsteps: {rate: 0.25}\n")
    (tmp_path / "higher.yaml").write_text("base: high\nseed: 4\n")
    result = read_recipe(str(tmp_path / "higher.yaml"))
    assert (result.seed, result.steps.count, result.steps.rate) == (4, 7, 0.25)
    (tmp_path / "low.yaml").write_text("base: higher\n")
    with pytest.raises(InputError, match="based on itself"):
        read_recipe(str(tmp_path / "high.yaml"))


def test_a_base_that_is_not_beside_its_recipe_is_one_that_ships(tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text("base: ast-plain\nsteps: {count: 7}\n")
    result = read_recipe(str(tmp_path / "short.yaml"))
    assert (result.steps.count, result.model.residual) == (7, False)
    assert result.steps.rate == read_recipe("ast-plain").steps.rate
    (tmp_path / "none.yaml").write_text("base: papr\n")
    with pytest.raises(InputError, match="no such file; did you mean 'paper'"):
        read_recipe(str(tmp_path / "none.yaml"))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"stepps": {}}, "unknown key stepps; did you mean 'steps'"),
        ({"steps": {"rat": 1}}, r"unknown key steps\.rat; did you mean 'rate'"),
        ({"steps": {"count": "many"}}, "Expected `int`, got `str` - at `steps.count`"),
        ({"mix": []}, "mix is empty"),
        *(({"seed": seed}, "seed") for seed in (-1, 2**63, 2**70)),
        ({"model": {"heads": 0}}, "heads: 0 is not a whole number"),
        ({"encoder": "lstm"}, "'lstm' is not one of ast"),
        ({"steps": [1]}, "steps must hold keys and values"),
        (
            {"articles": "teacher", "losses": {"vectors": 1}, "batches": {"articles": 1}},
            "batches.articles: must be 0 where the teacher reads",
        ),
        ({"losses": {"errors": 1}}, "needs articles: teacher"),
        ({"tokens": {"vectors": "glove.txt"}}, "does not go with"),
        (["a"], "must hold keys and values"),
    ],
)
def test_a_bad_recipe_is_refused_in_one_line(result: object, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse(result, "my.yaml")
    assert str(caught.value).startswith("my.yaml: ")
    assert "\n" not in str(caught.value)


def test_an_unknown_recipe_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'paper'"):
        read_recipe("papr")
    with pytest.raises(InputError, match="those that ship: ast, "):
        read_recipe(str(tmp_path / "zzzzzz"))


@pytest.mark.parametrize("text", ["a: [", "- x", "\xff"])
def test_a_file_that_is_no_recipe_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"bad\.yaml"):
        read_recipe(str(file))
