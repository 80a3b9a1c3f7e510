import shlex
from pathlib import Path

import pytest

from tests.newsift.cli.test_dead_letters import reject
from tests.worker.command_topics import LABELS, POSTS, SEEDS, Kafka
from tests.worker.fake_command import Command
from tests.worker.sample_articles import FERRY
from worker.posts.read import Reason

POST = b'{"id": "1", "text": "a ferry"}\n'
LABEL = b'{"label": "on", "event": "storm", "by": "ann", "post": %b}\n' % (
    b'{"id": "1", "platform": "x", "text": "rain"}'
)
GERMAN = "Auf der Fähre ist ein Feuer ausgebrochen, neun Menschen werden noch vermisst. ".encode()
FILES = {
    "a.md": b"# T\n\nText.",
    "b.md": b"# T\n\nText.",
    "ferry.md": f"{FERRY} ".encode() * 9,
    "bad.json": b'{"text": "x", "threshold": 1.5}',
    "bytes.txt": b"\xff\xfe",
    "emoji.md": "🔥🔥".encode(),
    "empty/.lock": b"",
    "german.md": 8 * GERMAN,
    "labels.jsonl": LABEL * 2,
    "later/.lock": b"",
    "later/project.json": b'{"schema": "newsift.project/2"}',
    "lines": b"just\nwords\n",
    "no_labels.jsonl": b"\n",
    "noise.bin": bytes(range(256)),
    "no_posts.csv": b"event,label,text\n",
    "no_posts.jsonl": b'{"label": "on"}\n',
    "export.jsonl": b'{"key": "a", "value": "{}"}\n{',
    "export2.jsonl": b'{"key": "a", "value": "{}"}\n{"key": "b", "value": null}',
    "export3.jsonl": b'{"key": "a", "value": "{}"}\n{"key": "a", "value": "{}"}',
    "nothing.json": b"[]",
    "posts.jsonl": POST * 20,
    "strange/.lock": b"",
    "strange/notes.txt": b"x",
    "unnamed.json": b'[{"text": "A"}, {"text": "B"}]',
}
OPEN, TOKEN = "NEWSIFT_DESK__HOST=0.0.0.0", f"NEWSIFT_DESK__TOKEN={'a' * 32}"
REFUSED = [
    ("seeds add", "give files, or --url"),
    ("seeds add --force a.md gone.md", "gone.md: cannot be read"),
    ("seeds add --force a.md b.md --id x", "--id and --title are for one article"),
    ("seeds add --force a.md --threshold 2", "threshold: 2 is not above 0"),
    ("seeds add --force a.md --expires-at soon", "--expires-at 'soon': is not a time"),
    ("seeds add --force a.md bytes.txt", "is not UTF-8 at byte 1"),
    ("seeds add /dev/zero", "/dev/zero: is not a regular file and no pipe"),
    ("seeds add --force a.md nothing.json", "holds no seed"),
    ("seeds add --force a.md unnamed.json", "seed 1: has no 'id'"),
    ("seeds add --force a.md emoji.md", "text: holds no word that the model reads"),
    ("seeds add a.md", "has 1 word, and an article has 40"),
    ("seeds add german.md", "german.md: looks like another language"),
    ("seeds add a.md --intranet", "--intranet"),
    ("seeds add --force a.md --id ''", "a.md: key: missing"),
    ("seeds set ferry", "nothing to change"),
    ("events promise ferry --precision NaN --yes", "NaN is no finite number"),
    (f"filter posts.jsonl --seeds later --out {'x' * 300}.csv", "File name too long"),
    ("seeds list --kafka ''", "--kafka: empty"),
    ("config show --template --json", "leave --json out"),
    ("explain ''", "TEXT: is empty"),
    ("seeds set ferry --threshold much", "--threshold 'much': give a score"),
    ("seeds set gone --threshold 0.5", "seed 'gone': there is none of this id"),
    ("seeds import export.jsonl", "line 2: is not"),
    ("seeds import export2.jsonl", "line 2: has no value; newsift seeds remove"),
    ("seeds import export3.jsonl", "line 2: has the key of an earlier row"),
    ("collect bluesky --url ws://127.0.0.1:1/firehose", "--url: the path '/firehose'"),
    ("collect bluesky --state /dev/null/state", "--state: /dev/null/state cannot be written"),
    ("collect mastodon --url https://m.example", "NEWSIFT_MASTODON_TOKEN"),
    ("collect mastodon --url https://m.example --token-file /dev/null", "--token-file: "),
    ("collect mastodon --url ftp://m.example", "--url"),
    ("collect mastodon --url https://m.example/api/v1/streaming/public --stream hashtag", "--str"),
    ("collect mastodon --url https://m.example --stream hashtag", "--stream hashtag"),
    ("collect x", "NEWSIFT_X_TOKEN"),
    ("collect files nowhere", "there is no such folder"),
    ("collect files lines", "lines: is no folder"),
    ("backfill gone --since 1h", "seed 'gone': there is none of this id"),
    ("backfill odd --since 1h", "seed 'odd': is refused: text: missing"),
    ("backfill brand --since 1h", "seed 'brand': looks like another language"),
    ("backfill ferry", "Missing option '--since'"),
    ("backfill ferry --since now", "--since 'now': is not a time"),
    ("backfill ferry --since 1h --out m.json --csv", "--csv and --out m.json exclude each other"),
    ("filter posts.jsonl --seeds bad.json --force", "seed 'bad': is refused: threshold: 1.5"),
    ("filter - --seeds -", "--seeds -: standard input holds the posts"),
    ("filter posts.jsonl --force --seeds emoji.md", "seed 'emoji': is refused: text: holds no"),
    ("filter posts.jsonl --seeds a.md", "a.md: has 1 word, and an article has 40"),
    ("filter posts.jsonl --seeds german.md", "german.md: looks like another language"),
    ("filter posts.jsonl --seeds ferry.md --threshold 2", "'--threshold': 2.0 is not in the range"),
    ("filter gone.jsonl --seeds ferry.md", "gone.jsonl: cannot be read"),
    ("filter posts.jsonl --seeds ferry.md --out x --rejected x", "name two files"),
    ("filter lines --seeds ferry.md --format twarc", "--format twarc is JSON"),
    ("filter posts.jsonl --seeds ferry.md --out m.db --per post", "--per: a database holds posts"),
    ("filter - --seeds ferry.md --learn", "--learn reads the posts twice"),
    ("filter - --seeds ferry.md --learn-from -", "--learn-from -: standard input can be read once"),
    ("matches --since yesterday", "--since 'yesterday': is not a time"),
    ("matches --json --csv", "--json and --csv exclude each other"),
    ("matches --limit 0", "--limit"),
    ("matches --post-to ftp://a/b", "--post-to: "),
    ("matches --post-to http://127.0.0.1:1/ --csv", "--post-to: "),
    ("matches --per seed", "'seed' is not one of 'match', 'post'"),
    ("replay posts.jsonl --rate 0", "--rate"),
    ("replay --check lines --format lines --id-column a", "--format lines has no columns"),
    ("dead-letters retry", "name dead letters, or give --all, or --reason"),
    ("dead-letters retry --all --reason no_id", "name dead letters, or give --all"),
    ("dead-letters retry tweets-2-1 tweets-2-2", "the original is gone"),
    ("dead-letters retry tweets-2-3", "there is nothing to retry"),
    ("dead-letters list --reason x", "'--reason': 'x' is not one of"),
    ("events learn gone --yes", "event 'gone': there is none of this name"),
    ("events learn ferry", "learn asks before it publishes"),
    ("events learn ferry --yes --since soon", "--since 'soon': is not a span"),
    ("events learn ferry --yes --every 0.9s", "is not a span of time of a second or more"),
    ("events learn ferry --yes --background --every 1m", "--background needs no"),
    ("events learn paused --yes --background", "has no seed that matches"),
    ("background build", "give files, or --from-topic"),
    ("background build posts.jsonl --out own.bin", "must end in .safetensors"),
    ("background build posts.jsonl --out no/own.safetensors", "there is no folder"),
    ("background build posts.jsonl", "posts are too few for matching.background_rate"),
    ("explain x --article no/such.md", "there is no such file"),
    ("explain x --title T", "--title needs --article"),
    ("explain - --article -", "TEXT and --article"),
    ("explain x --article empty", "is a folder"),
    ("embed posts.jsonl --out x.jsonl", "must end in .safetensors"),
    ("labels ask storm", "needs a terminal"),
    ("labels ask storm --queue learn", "newsift labels import FILE"),
    ("labels ask storm --queue count", "newsift desk"),
    ("labels import no_labels.jsonl --yes", "holds no label"),
    ("labels import no_posts.jsonl --yes", "line 1: value: Object missing required field"),
    ("labels import no_posts.csv --yes", "line 1: has no column 'post_id'"),
    ("labels import labels.jsonl --yes", "line 2: 'ann' judged this post"),
    ("desk --file gone.csv", "gone.csv: cannot be read"),
    ("desk --file noise.bin", "noise.bin"),
    ("desk --file posts.jsonl gone.csv", "gone.csv: cannot be read"),
    ("desk --file no_posts.csv no_labels.jsonl", "no_labels.jsonl: holds no row"),
    ("desk --file -", "--file -: the posts are read again"),
    ("desk --file posts.jsonl --kafka 127.0.0.1:1", "--kafka: files and projects have a broker"),
    ("desk --file posts.jsonl --seeds a.md", "a.md: has 1 word, and an article has 40"),
    ("desk --file posts.jsonl --seeds german.md", "german.md: looks like another language"),
    ("desk --seeds a.md", "--seeds and the options of files need --file or --project"),
    ("demo --model gone", "model 'gone': no such directory"),
    ("desk --project gone", "--project: gone does not exist"),
    ("desk --project empty", "give --file FILE"),
    ("desk --project strange", "it holds notes.txt"),
    ("desk --project later", "has the schema 'newsift.project/2'"),
    ("desk --project posts.jsonl", "posts.jsonl"),
    (f"{TOKEN} desk --no-token", "--no-token: but desk.token is set"),
    (f"{OPEN} desk --no-token", "desk.host: 0.0.0.0 is open to others"),
    (f"{OPEN} desk", "desk.host: 0.0.0.0 is open to others"),
    (f"{OPEN} NEWSIFT_DESK__TOKEN=short desk", "desk.token: is easily guessed"),
    (f"{TOKEN} NEWSIFT_DESK__HOST=192.0.2.1 desk --port 0", "is not an address of this host"),
    ("desk --port TAKEN", " is taken; free it"),
    ("schemas matches", "no schema 'matches'"),
    ("NEWSIFT_TOPICS__SEEDS=nowhere seeds list", "has no topic 'nowhere'"),
    ("NEWSIFT_MATCHING__BACKGROUND=gone.safetensors config check", "matching.background: gone"),
]  # fmt: skip


BY_COMMAND: dict[str, list[tuple[str, str]]] = {}
for words, message in REFUSED:
    command = next(word for word in words.split() if "=" not in word)
    BY_COMMAND.setdefault(command, []).append((words, message))


@pytest.mark.parametrize("refused", BY_COMMAND.values(), ids=BY_COMMAND)
def test_refuses(
    newsift: Command, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    refused: list[tuple[str, str]],
) -> None:  # fmt: skip
    monkeypatch.setenv("NEWSIFT_WEBHOOK_SECRET", "s")
    monkeypatch.setenv("NEWSIFT_STATE", str(tmp_path.parent / "state"))
    for name in ("MASTODON", "X"):
        monkeypatch.delenv(f"NEWSIFT_{name}_TOKEN", raising=False)
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    kafka.send(SEEDS, b'{"text": "A ferry burns.", "event": "ferry"}', b"ferry")
    kafka.send(SEEDS, b'{"text": "%b"}' % (8 * GERMAN), b"brand")
    kafka.send(SEEDS, b"{}", b"odd")
    kafka.send(SEEDS, b"{}", b"profile|paused")
    reject(kafka, 1)
    reject(kafka, 2, reason=Reason.POST_BYTES)
    reject(kafka, 3, value=None, reason=Reason.BAD_BATCH)
    files = set(tmp_path.rglob("*"))
    for words, message in refused:
        args = shlex.split(words.replace("TAKEN", str(kafka.address).rpartition(":")[2]))
        with monkeypatch.context() as patched:
            while "=" in args[0]:
                name, _, value = args.pop(0).partition("=")
                patched.setenv(name, value)
            done = newsift(*args, stdin=b"a post\n")
        assert (done.code, done.out) == (2, ""), (words, done)
        assert message in done.err.splitlines()[-1], words
        assert "Traceback" not in done.err
    assert len(kafka.records(SEEDS)) == 4
    assert kafka.records(POSTS) == kafka.records(LABELS) == []
    assert set(tmp_path.rglob("*")) == files
