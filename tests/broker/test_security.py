import gc
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from newsift.operations.cluster_status import group_errors, hidden_topics, read_commits
from newsift.operations.deletions import read_deletions
from tests.broker.clients import admin, create, until
from tests.broker.conftest import ASKED
from tests.broker.kafka import ApacheKafka
from tests.broker.secure import PASSWORD, SCRAM, USER
from tests.broker.server import Server
from tests.faults.expected_matches import Oracle
from tests.faults.story import Story
from tests.newsift.desk.desk_topics import desks
from tests.worker.fake_command import Command
from worker.config.load import load_config
from worker.errors import AccessError
from worker.kafka.reading import connected
from worker.kafka.topics import admin_client, check_topics

if not ASKED:
    pytest.skip(
        "TLS and logins need Apache Kafka: NEWSIFT_TEST_KAFKA=apache asks for it",
        allow_module_level=True,
    )

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
Way = dict[str, Any]  # keys of the section kafka; @ stands for the folder of the certificates
TLS: Way = {"security_protocol": "SSL", "ca_file": "@ca.pem"}
MUTUAL: Way = TLS | {"door": "MUTUAL"}
CLIENT: Way = {"cert_file": "@client.pem", "key_file": "@client.key"}
STRANGER: Way = {"cert_file": "@stranger.pem", "key_file": "@stranger.key"}
LOGIN: Way = {"door": "SCRAM", "security_protocol": "SASL_PLAINTEXT", "username": USER,
              "password_file": "@password"}  # fmt: skip
SCRAM_256, SCRAM_512 = (LOGIN | {"sasl_mechanism": way} for way in SCRAM)
PLAIN: Way = LOGIN | TLS | {
    "door": "PLAIN", "security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN",
}  # fmt: skip
WRONG: Way = {"password_file": "@wrong"}

RIGHT_WAYS: dict[str, Way] = {
    "TLS": TLS | {"door": "TLS"},
    "client certificate": MUTUAL | CLIENT,
    "PLAIN over TLS": PLAIN,
    "SCRAM-SHA-256": SCRAM_256,
    "SCRAM-SHA-512": SCRAM_512,
}
LOGIN_SAID = f"the login of {USER} is refused"
TRUST_SAID = "its certificate is not trusted"
WRONG_WAYS: dict[str, tuple[Way, str]] = {
    "wrong password, PLAIN": (PLAIN | WRONG, LOGIN_SAID),
    "wrong password, SCRAM-SHA-256": (SCRAM_256 | WRONG, LOGIN_SAID),
    "wrong password, SCRAM-SHA-512": (SCRAM_512 | WRONG, LOGIN_SAID),
    "unknown user": (SCRAM_256 | {"username": "nobody"}, "the login of nobody is refused"),
    "unknown authority": (TLS | {"door": "TLS", "ca_file": "@other-ca.pem"}, TRUST_SAID),
    "the system's authorities": (TLS | {"door": "TLS", "ca_file": None}, TRUST_SAID),
    "another host name": (TLS | {"door": "TLS", "host": "127.0.0.1"}, TRUST_SAID),
    "no client certificate": (MUTUAL, "kafka.cert_file"),
    "a stranger's certificate": (MUTUAL | STRANGER, "kafka.cert_file"),
    "plaintext to TLS": ({"door": "TLS"}, "speaks TLS; set kafka.security_protocol"),
    "TLS to plaintext": (TLS, "does not speak TLS on this port"),
    "PLAIN to SCRAM": (LOGIN | {"sasl_mechanism": "PLAIN"}, "does not offer kafka.sasl_mechanism"),
    "SCRAM to PLAIN": (PLAIN | {"sasl_mechanism": SCRAM[0]}, "does not offer kafka.sasl_mechanism"),
    "a login where there is none": (SCRAM_256 | {"door": None}, "kafka.security_protocol"),
    "no login where one is wanted": (
        {"door": "SCRAM"},
        "closes the connection of a client that does not log in",
    ),
}


@pytest.fixture
def story(server: Server, tmp_path: Path, oracle: Oracle) -> Iterator[Story]:
    if not isinstance(server, ApacheKafka):
        pytest.skip("the embedded broker has neither TLS nor logins")
    with closing(Story(server, tmp_path, oracle)) as answer:
        yield answer
    gc.collect()  # kafka-python leaves sockets of connections that were refused behind


def configured(story: Story, way: Way) -> dict[str, Any]:
    assert isinstance(story.server, ApacheKafka)
    doors = story.server.doors
    assert doors is not None
    (doors.folder / "password").write_text(PASSWORD)
    (doors.folder / "wrong").write_text(f"{PASSWORD}-not")
    config, kafka = story.settings(), dict(way)
    door, host = kafka.pop("door", None), kafka.pop("host", "localhost")
    if door is not None:
        kafka["bootstrap_servers"] = doors.address(door, host)
    for key, value in kafka.items():
        named = isinstance(value, str) and value.startswith("@")
        config["kafka"][key] = doors.file(value[1:]) if named else value
    return config


def give(server: Server, user: str, *resources: ResourcePattern) -> None:
    """The right to read to one user, and so to no other."""
    kind, allow = ACLOperation.READ, ACLPermissionType.ALLOW
    with admin(server.address) as client:
        client.create_acls([ACL(f"User:{user}", "*", kind, allow, each) for each in resources])


def test_what_the_user_has_no_right_to_know_is_hidden_and_not_missing(
    story: Story, tmp_path: Path, unique: str
) -> None:
    """A topic with records and a missing one, the settings of a topic, and a group."""
    values = configured(story, SCRAM_256)
    posts, matches, seeds, rejected = (f"{unique}-{n}" for n in range(4))
    values["topics"] |= {"posts": posts, "seeds": seeds, "matches": matches, "rejected": rejected}
    values["kafka"]["group"] = unique
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values))
    config = load_config(tmp_path / "config.yaml", {})
    for topic in (posts, matches):
        create(story.server.address, topic)
    of_others = [ResourcePattern(ResourceType.TOPIC, topic) for topic in (matches, seeds)]
    give(story.server, "other", *of_others, ResourcePattern(ResourceType.GROUP, unique))
    give(story.server, USER, ResourcePattern(ResourceType.TOPIC, posts))
    with connected(config) as cluster, admin_client(config) as client:
        until(lambda: hidden_topics(cluster, config) == [seeds, matches])
        assert (cluster.exists(posts), cluster.exists(rejected)) == (True, False)
        with pytest.raises(AccessError, match=f"user {USER} has no right on the topic {matches};"):
            read_deletions(cluster, config)
        with pytest.raises(AccessError, match=f"{unique}; grant Describe"), group_errors(config):
            read_commits(client, config)
    actual = {(d.topic, d.setting): d.actual for d in check_topics(config)}
    assert actual[rejected, "topic"] == "missing"
    assert actual[matches, "topic"] == actual[seeds, "topic"] == "hidden"
    assert actual[posts, "settings"] == "hidden"


@pytest.mark.parametrize("name", ["wrong password, SCRAM-SHA-512", "unknown authority"])
def test_a_desk_that_is_refused_does_not_wait(story: Story, tmp_path: Path, name: str) -> None:
    way, message = WRONG_WAYS[name]
    config = configured(story, way | {"request_timeout_s": 1})
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    with desks(tmp_path) as start:
        desk = start("--port", "0")
        assert desk.wait() == 2
        assert message in desk.output
        assert desk.output.count("\n") == 1


@pytest.mark.parametrize("name", RIGHT_WAYS)
def test_a_way_in(
    story: Story, newsift: Command, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Command and worker come in, and posts become matches."""
    config = configured(story, RIGHT_WAYS[name])
    story.posts(40)
    worker = story.worker(config)
    assert story.nothing_lost().matches > 0
    monkeypatch.setenv("NEWSIFT_CONFIG", str(worker.config))
    answer = newsift("seeds", "list", "--json")
    rows = [json.loads(line) for line in answer.out.splitlines()]
    assert (answer.code, {row["id"] for row in rows}) == (0, set(story.seeds))
    assert worker.terminate() == 0
    assert PASSWORD not in worker.output + answer.out + answer.err


@pytest.mark.parametrize("name", WRONG_WAYS)
def test_no_way_in(
    story: Story, newsift: Command, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Command and worker end with exit code 2 and one line that names the remedy, no secret."""
    way, message = WRONG_WAYS[name]
    config = configured(story, way | {"request_timeout_s": 1})
    worker = story.worker(config)
    monkeypatch.setenv("NEWSIFT_CONFIG", str(worker.config))
    answer = newsift("seeds", "list")
    assert (answer.code, answer.out) == (2, ""), answer
    (line,) = answer.err.splitlines()
    assert message in line
    worker.refused(f"broker {config['kafka']['bootstrap_servers']}: ", message)
    assert PASSWORD not in answer.err + worker.output
