import csv
import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from newsift.broker.server import running
from newsift.cli import cli
from newsift.cli.examples import EXAMPLES
from newsift.cli.samples import SAMPLES
from tests.worker.fake_command import Command

RUN = (  # in this order: what one makes, the next reads
    "filter", "topics create", "topics check", "replay", "check", "config check", "config show",
    "seeds add", "seeds list", "seeds show", "seeds set", "seeds export", "seeds import",
    "labels import", "labels list", "labels export", "events list", "matches",
    "dead-letters list", "embed", "explain", "schemas", "status", "seeds remove",
)  # fmt: skip
NOT_RUN = (  # other hosts, one without an end, and what is not there
    "example.org", "kafka:9092", "matches --event", "remove ferry other",
)  # fmt: skip


def commands() -> Iterator[tuple[str, click.Command]]:
    def walk(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command]]:
        if not isinstance(command, click.Group):
            yield context.command_path.partition(" ")[2], command
            return
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from walk(inner, click.Context(inner, context, name))

    return walk(cli, click.Context(cli, info_name="newsift"))


def test_a_group_has_examples_of_its_commands() -> None:
    context = click.Context(cli, info_name="newsift")
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        if isinstance(command, click.Group):
            lines = (command.epilog or "").splitlines()[2:]
            assert len(lines) == min(2, len(command.commands))
            assert all(line.startswith(f"  $ newsift {name} ") for line in lines)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the examples name."""
    monkeypatch.chdir(tmp_path)
    article = SAMPLES / "seeds" / "ferry-fire.md"
    for name in ("articles", "incoming", "data", "model", "out", "star"):
        Path(name).mkdir()
    for name in ("articles/ferry.md", "article.md", "other.md"):
        shutil.copy(article, name)
    shutil.copy(SAMPLES / "posts.jsonl", "posts.jsonl")
    posts = [json.loads(line) for line in Path("posts.jsonl").read_text("utf-8").splitlines()]
    with Path("posts.csv").open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([("id", "text"), *((p["id"], p["text"]) for p in posts)])
    Path("articles.jsonl").write_text('{"text": "A ferry burns in the harbour"}\n')
    label = {"event": "ferry", "label": "on", "post": {"id": "3", "platform": "x", "text": "a"}}
    Path("labels.jsonl").write_text(json.dumps(label))
    Path("labels.csv").write_text("event,label,platform,post_id,text\nferry,on,x,3,a\n")
    Path("token").write_text("secret")
    for name in ("rules.txt", "config.yaml", "recipe.yaml", "background.safetensors"):
        Path(name).touch()
    return tmp_path


def test_each_command_has_two_valid_examples(folder: Path) -> None:
    by_name = dict(commands())
    assert by_name.keys() == EXAMPLES.keys()
    for name, command in by_name.items():
        for arguments in EXAMPLES[name]:
            command.make_context(name, shlex.split(arguments))
            assert f"$ newsift {name} {arguments}".rstrip() in (command.epilog or "")


def test_the_examples_run(folder: Path, newsift: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with running() as broker:
        monkeypatch.setenv("NEWSIFT_KAFKA", broker.address)
        for example in (f"{name} {each}" for name in RUN for each in EXAMPLES[name]):
            if not any(each in example for each in NOT_RUN):
                done = newsift(*shlex.split(example))
                assert done.code == 0, (example, done.err)
