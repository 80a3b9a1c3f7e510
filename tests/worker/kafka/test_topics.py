"""The topics on a broker: created and compared."""

from collections.abc import Iterator
from typing import Any

import kafka
import kafka.errors
import pytest

from newsift.broker.server import running
from worker.config import Config, load_config
from worker.errors import AccessError, ConfigError
from worker.kafka.settings import kafka_python_settings
from worker.kafka.topics import (
    check_topics,
    create_topics,
    ensure_labels,
    ensure_topics,
    refuse_unfit,
)

NAMES = ["tweets", "seed-articles", "matched-tweets", "rejected-tweets"]


LABELS = "newsift-labels"


@pytest.fixture
def config() -> Iterator[Config]:
    with running(auto_create=False) as address:
        yield load_config(None, {"NEWSIFT_KAFKA": str(address), "NEWSIFT_TOPICS__PARTITIONS": "3"})


def closed(config: Config) -> Config:
    """The same, where topics are not to be made."""
    env = {"NEWSIFT_KAFKA": config.kafka.bootstrap_servers, "NEWSIFT_TOPICS__CREATE": "false"}
    return load_config(None, env)


def make(config: Config, topics: dict[str, Any]) -> None:
    admin = kafka.KafkaAdminClient(**kafka_python_settings(config))
    admin.create_topics(topics)
    admin.close()


def test_a_new_broker_gets_all_topics(config: Config) -> None:
    assert ensure_topics(config) == NAMES
    assert ensure_topics(config) == []
    assert [(each.topic, each.serious) for each in check_topics(config)] == [(LABELS, False)]
    assert create_topics(config) == [LABELS]
    assert check_topics(config) == []
    consumer = kafka.KafkaConsumer(**kafka_python_settings(config))
    actual = {name: len(consumer.partitions_for_topic(name)) for name in NAMES}
    consumer.close()
    assert actual == dict.fromkeys(NAMES, 3) | {"seed-articles": 1}


def test_existing_topics_stay_as_they_are(config: Config) -> None:
    make(config, {"tweets": {"num_partitions": 1, "replication_factor": 1}})
    assert ensure_topics(config) == NAMES[1:]
    [_, actual] = check_topics(config)
    assert (actual.topic, actual.setting, actual.actual) == ("tweets", "partitions", "1")


def test_the_labels_topic_is_created_only_for_labels(config: Config) -> None:
    with pytest.raises(AccessError, match=f"missing topics {LABELS}, and topics.create is false"):
        ensure_labels(closed(config))
    assert ensure_labels(config) == []
    assert check_topics(config)[0].topic == "tweets"  # and no other is made
    ensure_labels(closed(config))


def test_an_unfit_labels_topic_stops_no_worker(config: Config) -> None:
    make(config, {LABELS: {"num_partitions": 2}})
    assert ensure_topics(config) == NAMES
    refuse_unfit(config)
    actual = ensure_labels(config)
    assert [(d.setting, d.serious) for d in actual] == [
        ("partitions", True), ("cleanup.policy", True),
    ]  # fmt: skip
    assert actual[0].fix.endswith("newsift topics create; newsift labels import labels.jsonl")


def test_without_the_right_to_create_the_message_names_the_command(config: Config) -> None:
    make(config, {"tweets": {}, "matched-tweets": {}, "rejected-tweets": {}})
    with pytest.raises(AccessError) as raised:
        ensure_topics(closed(config))
    message = str(raised.value)
    assert "missing topics seed-articles, and topics.create is false" in message
    assert "--create --topic seed-articles --partitions 1" in message
    assert check_topics(closed(config))[0].actual == "missing"
    assert create_topics(closed(config)) == ["seed-articles", LABELS]
    assert ensure_topics(closed(config)) == []


def test_an_unfit_topic_is_refused_with_the_remedy(config: Config) -> None:
    make(config, {"seed-articles": {"num_partitions": 2}})
    with pytest.raises(AccessError) as raised:
        ensure_topics(config)
    message = str(raised.value)
    assert message.startswith("topic seed-articles: partitions is 2, must be 1: ")
    assert "newsift seeds export seeds.jsonl; " in message
    assert message.endswith("; 1 more: see `newsift topics check`")
    with pytest.raises(AccessError):
        refuse_unfit(config)


def test_a_topic_that_another_worker_creates_first_is_no_error(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topics(config)
    monkeypatch.setattr(kafka.KafkaAdminClient, "list_topics", lambda _: ["tweets"])
    assert ensure_topics(config) == []


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (kafka.errors.InvalidReplicationFactorError("2 > 1"), ConfigError, "topics.replication: "),
        (kafka.errors.TopicAuthorizationFailedError("no"), AccessError, "as somebody who may"),
        (kafka.errors.PolicyViolationError("error_message='5'"), AccessError, "refuses (Policy"),
        (kafka.errors.InvalidTopicError("no"), Exception, "InvalidTopicError"),
    ],
)
def test_a_broker_that_refuses_to_create_topics_is_an_error(
    config: Config, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[Exception],
    message: str,
) -> None:  # fmt: skip
    def refuse(*_args: Any, **_kwargs: Any) -> None:
        raise error

    monkeypatch.setattr(kafka.KafkaAdminClient, "create_topics", refuse)
    with pytest.raises(kind) as raised:
        ensure_topics(config)
    assert message in str(raised.value)
