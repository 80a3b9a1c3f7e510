import json
from pathlib import Path

import jsonschema

from tests.worker.fake import Command

FOLDER = Path(__file__).parents[3] / "deploy" / "schemas"


def test_lists_and_prints_every_schema(newsift: Command) -> None:
    listed = newsift("schemas").out.splitlines()
    assert sorted(line.split()[0] for line in listed) == sorted(f.stem for f in FOLDER.iterdir())
    for file in FOLDER.iterdir():
        assert newsift("schemas", file.stem).out == file.read_text("utf-8")
    result = json.loads(newsift("schemas", "--json").out)
    assert sorted(result) == sorted(file.stem for file in FOLDER.glob("*.json"))
    for schema in result.values():
        jsonschema.Draft202012Validator.check_schema(schema)
