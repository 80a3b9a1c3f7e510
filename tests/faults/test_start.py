"""What is wrong when the worker starts: its model, its configuration, its way to the broker.

Each start is refused, with exit code 2 and one line, and touches no post; then a right one follows.
"""

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.broker.secure import SCRAM, USER
from tests.encoder.test_model_directory import sign
from tests.faults.process import Worker
from tests.faults.story import Story

WEIGHTS, VOCABULARY, BACKGROUND = (
    "model.safetensors.gz",
    "vocabulary.txt",
    "background.safetensors.gz",
)
WORD = "not-the-password"
Way = tuple[dict[str, Any], str]  # keys of the section kafka, and the error


def refused(story: Story, worker: Worker, *words: str) -> None:
    worker.refused(*words)
    assert story.committed() == {}
    story.events += 1


def cut_short(model: Path) -> None:
    content = (model / WEIGHTS).read_bytes()
    (model / WEIGHTS).write_bytes(content[:-100])


def changed(model: Path) -> None:
    content = bytearray((model / BACKGROUND).read_bytes())
    content[-1] ^= 1
    (model / BACKGROUND).write_bytes(content)


def another_vocabulary(model: Path) -> None:
    lines = (model / VOCABULARY).read_bytes().splitlines(keepends=True)
    (model / VOCABULARY).write_bytes(b"".join(lines[:-1]))
    sign(model, lambda _: None)


def a_pickle(model: Path) -> None:
    (model / WEIGHTS).write_bytes(pickle.dumps({"embedding": [1.0]}))
    sign(model, lambda _: None)


DAMAGE: list[tuple[Callable[[Path], None], tuple[str, ...]]] = [
    (cut_short, (WEIGHTS, "cut short")),
    (changed, (BACKGROUND, "wrong digest")),
    (another_vocabulary, (VOCABULARY, "another model's vocabulary")),
    (a_pickle, (WEIGHTS, "is a pickle")),
]


def test_21_the_model_is_damaged(story: Story) -> None:
    """The worker refuses a model that is truncated, changed, pickled, or has a wrong vocabulary."""
    story.posts(20)
    for damage, words in DAMAGE:
        model = story.folder / damage.__name__
        shutil.copytree(story.oracle.model, model)
        damage(model)
        config = story.settings()
        config["model"]["name"] = str(model)
        refused(story, story.worker(config), str(model), *words)
    story.worker()
    story.nothing_lost()


def test_22_the_configuration_is_wrong(story: Story) -> None:
    """The worker refuses a configuration with an unknown key, a wrong value, or invalid YAML."""
    story.posts(20)
    good = yaml.safe_dump(story.settings())
    wrong = {
        "stream.batch_post": good.replace("batch_posts:", "batch_post:"),
        "steam": good.replace("stream:", "steam:"),
        "stream.batch_posts": good.replace("batch_posts: 8", "batch_posts: many"),
        "kafka.session_timeout_s": good.replace("timeout_s: 2", "timeout_s: -2"),
        "line": f"{good}]",
    }
    for key, text in wrong.items():
        worker = story.worker(text)
        refused(story, worker, str(worker.config), key)
    story.worker()
    story.nothing_lost()


def test_23_no_way_in(story: Story) -> None:
    """The worker refuses an untrusted broker, reports a refused login, and prints no secret."""
    story.posts(20)
    secret = story.folder / "secret"
    secret.write_text(WORD, "utf-8")
    login = {"security_protocol": "SASL_PLAINTEXT", "username": USER, "password_file": str(secret)}
    for way, message in (*no_tls(story), *no_login(story)):
        config = story.settings()
        config["kafka"] |= login | way if "sasl_mechanism" in way else way
        worker = story.worker(config)
        refused(story, worker, message)
        assert WORD not in worker.output
    story.worker()
    story.nothing_lost()


def no_tls(story: Story) -> list[Way]:
    """Ways that end at TLS: on the embedded broker because it has none."""
    doors = getattr(story.server, "doors", None)
    if doors is None:
        return [({"security_protocol": "SSL"}, "does not speak TLS on this port")]
    trusting = {"security_protocol": "SSL", "bootstrap_servers": doors.address("TLS")}
    own = {"ca_file": doors.file("other-ca.pem")}
    return [(trusting, "is not trusted"), (trusting | own, "is not trusted")]


def no_login(story: Story) -> list[Way]:
    """Ways that end at the login: on the embedded broker because it knows none."""
    doors = getattr(story.server, "doors", None)
    if doors is None:
        return [({"sasl_mechanism": "PLAIN"}, "kafka.security_protocol")]
    wrong = {"sasl_mechanism": SCRAM[0], "bootstrap_servers": doors.address("SCRAM")}
    return [(wrong, f"the login of {USER} is refused")]
