"""What to type after the demo, as it fits what there is: on the PATH, of Kafka, of samples."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from encoder.errors import NewsiftError
from worker.cli.demo.samples import SAMPLES
from worker.config import Config, load_config


def hint() -> Iterator[str]:
    """The next steps, a line each."""
    found = shutil.which("newsift")
    beside = Path(sys.executable).with_name("newsift")
    if beside.exists() and not (found and Path(found).samefile(beside)):
        yield f"To have newsift and faust at hand:  source {_near(beside.with_name('activate'))}"
    yield "Next, your own files, without a broker:"
    yield _step("filter POSTS.jsonl --seeds ARTICLE.md", "the posts that match an article")
    yield "Or a stream, each in a terminal of its own:"
    try:
        named = load_config().kafka.bootstrap_servers
    except NewsiftError:
        named = Config().kafka.bootstrap_servers
    broker = None if named == Config().kafka.bootstrap_servers else named
    if broker is None:
        yield _step("broker", "or any Kafka: NEWSIFT_KAFKA=host:port")
    where = "the worker, on that broker" if broker is None else f"the worker, on {broker}"
    yield _step("-A worker worker", where, "faust")
    yield _step(f"seeds add {_near(SAMPLES)}/seeds/ferry-fire.md", "an article, or yours")
    yield _step("matches", "what is found, as it is found")
    yield _step(f"replay {_near(SAMPLES)}/posts.jsonl --rate 100", "posts, or yours")


def _step(typed: str, does: str, command: str = "newsift") -> str:
    return f"  {command + ' ' + typed:<58}  {does}"


def _near(path: Path) -> str:
    """A path as it is typed from here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
