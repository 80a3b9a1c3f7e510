import json
from pathlib import Path

import pytest

from tests.worker.command_topics import MATCHES, POSTS, REJECTED, SEEDS, Kafka
from tests.worker.fake_command import Command
from tests.worker.test_log import steers

EVIL = "\x1b[31m\x1b]0;x\x07\x9b2J\u202e\u2066\u200f\x08\x7f\u2028\U000e0041\r!"
NAME = f"seed{EVIL}"
TEXT = f"A fire on the ferry Astrid Vane off Port Maren {EVIL}"
SEED = {"text": f"{TEXT} " * 40, "title": EVIL, "event": EVIL, "url": f"http://x.y/{EVIL}", EVIL: 1}
POST = {"id": EVIL, "text": TEXT, "author": EVIL, "lang": EVIL, "url": EVIL, "created_at": EVIL}
MATCH = {
    "post": POST | {"platform": EVIL}, "matched": 1, "seed_set": EVIL, "model": EVIL,
    "processed_at": EVIL,
    "source": {"topic": EVIL, "partition": 0, "offset": 0, "timestamp": 0},
    "matches": [{"match_id": EVIL, "seed_id": NAME, "seed_version": EVIL, "event": EVIL,
                 "title": EVIL, "score": 0.5, "threshold": 0.1,
                 "why": [[EVIL, 0.4], ["ferry", 0.2]]}],
}  # fmt: skip
COMMANDS = (
    "seeds list", "seeds list --json", "seeds show NAME", "seeds show NAME --json",
    "seeds show bad NAME", "seeds set NAME --threshold 0.5", "seeds set NAME --event NAME --json",
    "seeds add FOLDER", "seeds add FOLDER --json", "seeds add gone NAME", "status", "status --json",
    "matches --no-follow", "matches --no-follow --json", "matches --no-follow --csv",
    "matches --no-follow --json --per match", "matches --no-follow --csv --per post",
    "matches --no-follow --out NAME", "matches --since NAME", "matches --no-follow --event NAME",
    "dead-letters list",
    "dead-letters list --json", "dead-letters show ODD", "dead-letters show ODD --json",
    "dead-letters show NAME", "dead-letters retry --all", "dead-letters retry --reason NAME",
    "backfill NAME --since 1h", "backfill NAME --since 1h --json", "backfill NAME --since 1h --csv",
    "filter POSTS --seeds FOLDER", "filter POSTS --seeds FOLDER --csv", "filter POSTS --seeds NAME",
    "filter NAME --seeds FOLDER", "replay POSTS", "replay NAME",
    "explain NAME", "explain NAME --article NAME", "embed POSTS --format jsonl", "schemas NAME",
    "topics check", "topics check --json", "config check", "config check --config NAME",
    "config show", "config show --json", "labels list", "labels list --json", "labels export",
    "seeds follow NAME --once", "collect files FOLDER --once", "collect files NAME --once",
    "labels ask NAME", "labels import POSTS --yes", "labels import NAME", "seeds remove NAME",
    "prune", "prune --since 1h", "prune --author NAME --platform x --yes",
    "events list", "events list --json", "events show NAME", "events learn EVENT --yes",
    "NAME", "--NAME",
)  # fmt: skip


@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
def test_no_command_steers_the_terminal(
    newsift: Command, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setenv("NEWSIFT_MATCHING__THRESHOLD", "0.000001")
    kafka.send(SEEDS, json.dumps(SEED).encode(), NAME.encode())
    kafka.send(SEEDS, json.dumps({"text": 1, EVIL: EVIL}).encode(), f"bad {NAME}".encode())
    kafka.send(SEEDS, f'{{"text": "{EVIL}"}}'.encode(), f"worse {EVIL}".encode())
    line = json.dumps(POST, ensure_ascii=False).encode()
    # JSON may hold these as they are: no escape is asked for above 0x7e.
    raw = json.dumps(MATCH).replace("\\u202e", "\u202e").replace("\\u009b", "\x9b").encode()
    for value in (line, line.replace(b'"text"', b'"t"'), json.dumps(POST).encode(), EVIL.encode()):
        kafka.send(POSTS, value, NAME.encode())
    for value in (raw, json.dumps(MATCH).encode(), EVIL.encode()):
        kafka.send(MATCHES, value, NAME.encode())
    output = [(name, EVIL.encode()) for name in ("reason", "detail", "source", "attempt", EVIL)]
    kafka.send(REJECTED, EVIL.encode(), EVIL.encode(), output)
    folder, posts = tmp_path / "folder", tmp_path / "posts.jsonl"
    folder.mkdir()
    (folder / f"{NAME}.json").write_text(json.dumps(SEED), "utf-8")
    posts.write_bytes(json.dumps(POST).encode() + b"\n" + line + b"\n" + EVIL.encode() + b"\n")
    given = {"NAME": NAME, "EVENT": EVIL, "ODD": EVIL, "FOLDER": str(folder), "POSTS": str(posts)}
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    spoke = 0
    for command in COMMANDS:
        words = [given.get(word, word).replace("--NAME", f"--{NAME}") for word in command.split()]
        done = newsift(*words)
        steering = steers(done.err) - {"\n"}
        if terminal or "--csv" not in command:
            steering |= steers(done.out.replace("\r\n", "\n")) - {"\n"}
        assert not steering, (command, steering, done)
        assert "Traceback" not in done.err
        assert done.err.count("\n") <= 12, command
        spoke += done.code == 0 and bool(done.out)
    assert spoke > 20  # and did its work all the same
