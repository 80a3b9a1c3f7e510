"""`newsift schemas`: what it lists and prints is what the checkout holds."""

import json
from pathlib import Path

import jsonschema

from tests.worker.fake import Command

FOLDER = Path(__file__).parents[3] / "deploy" / "schemas"
NAMES = sorted(file.stem for file in FOLDER.iterdir())


def test_the_list_names_every_file(newsift: Command) -> None:
    done = newsift("schemas")
    assert (done.code, done.err) == (0, "")
    assert sorted(line.split()[0] for line in done.out.splitlines()) == NAMES
    assert all(len(line.split()) > 1 for line in done.out.splitlines())


def test_each_is_printed_to_the_byte(newsift: Command) -> None:
    for file in FOLDER.iterdir():
        assert newsift("schemas", file.stem).out == file.read_text("utf-8")


def test_all_together_are_valid_schemas(newsift: Command) -> None:
    result = json.loads(newsift("schemas", "--json").out)
    assert sorted(result) == sorted(file.stem for file in FOLDER.glob("*.json"))
    for schema in result.values():
        jsonschema.Draft202012Validator.check_schema(schema)
