from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import kafka
import kafka.errors
import pytest

from newsift.broker.server import running
from tests.worker.command_topics import hide
from worker.config import Config, TopicsConfig
from worker.config.load import load_config
from worker.errors import AccessError, ConfigError
from worker.kafka.rules import (
    ActualTopic,
    create_command,
    differences,
    max_record_bytes,
    new_topics,
)
from worker.kafka.settings import kafka_python_settings
from worker.kafka.topics import (
    check_topics,
    create_topics,
    ensure_labels,
    ensure_topic,
    ensure_topics,
    require_fit_topics,
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


def test_missing_topics_are_created_and_the_others_stay_as_they_are(config: Config) -> None:
    make(config, {"tweets": {"num_partitions": 1, "replication_factor": 1}})
    assert ensure_topics(config) == NAMES[1:]
    assert ensure_topics(config) == []
    missing, fewer = check_topics(config)
    assert (missing.topic, missing.serious) == (LABELS, False)
    assert (fewer.topic, fewer.setting, fewer.actual) == ("tweets", "partitions", "1")
    assert create_topics(config) == [LABELS]
    assert check_topics(config) == [fewer]
    consumer = kafka.KafkaConsumer(**kafka_python_settings(config))
    actual = [len(consumer.partitions_for_topic(name)) for name in NAMES]
    consumer.close()
    assert actual == [1, 1, 3, 3]


def test_the_labels_topic_is_created_only_for_labels(config: Config) -> None:
    with pytest.raises(AccessError, match=f"missing topics {LABELS}, and topics.create is false"):
        ensure_labels(closed(config))
    assert ensure_labels(config) == []
    assert check_topics(config)[0].topic == "tweets"  # and no other is made
    ensure_labels(closed(config))


def test_an_unfit_labels_topic_stops_no_worker(config: Config) -> None:
    make(config, {LABELS: {"num_partitions": 2}})
    assert ensure_topics(config) == NAMES
    require_fit_topics(config)
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
        require_fit_topics(config)


def test_a_topic_that_another_worker_creates_first_is_no_error(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topics(config)

    def describe_before(_: Any, names: list[str]) -> list[dict[str, Any]]:
        monkeypatch.undo()
        code = kafka.errors.UnknownTopicOrPartitionError.errno
        return [{"name": name, "error_code": code} for name in names]

    monkeypatch.setattr(kafka.KafkaAdminClient, "describe_topics", describe_before)
    assert ensure_topics(config) == []


def test_a_hidden_topic_is_not_called_missing(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topics(config)
    hide(monkeypatch, "matched-tweets", LABELS)
    for ensure, names in (
        (ensure_topics, "matched-tweets"), (ensure_labels, LABELS),
        (create_topics, f"matched-tweets, {LABELS}"),
    ):  # fmt: skip
        with pytest.raises(AccessError, match=f"no right on the topic {names}; grant Describe"):
            ensure(closed(config))
    ensure_topic(closed(config), config.topics.posts)
    matches, labels = check_topics(config)
    assert [(d.topic, d.setting, d.actual, d.serious) for d in (matches, labels)] == [
        ("matched-tweets", "topic", "hidden", True), (LABELS, "topic", "hidden", False),
    ]  # fmt: skip
    assert matches.fix.endswith("User:ANONYMOUS --operation Describe --topic matched-tweets")


def test_the_worker_says_once_which_settings_it_may_not_read(
    config: Config, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    create_topics(config)
    ensure_topics(config)
    assert caplog.records == []
    read = kafka.KafkaAdminClient.describe_configs
    hidden: dict[str, Any] = {"seed-articles": {}, "matched-tweets": {}, LABELS: {}}

    def describe_some(admin: Any, *args: Any, **options: Any) -> Any:
        return {"topic": read(admin, *args, **options)["topic"] | hidden}

    monkeypatch.setattr(kafka.KafkaAdminClient, "describe_configs", describe_some)
    ensure_topics(config)
    [record] = caplog.records
    assert (record.levelname, record.args) == (
        "WARNING", ("seed-articles, matched-tweets", "an anonymous client"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (kafka.errors.InvalidReplicationFactorError("2 > 1"), ConfigError, "topics.replication: "),
        (
            kafka.errors.TopicAuthorizationFailedError("no"),
            AccessError,
            "as a user who may create topics",
        ),
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


CONFIG = Config()
LARGE = {"max.message.bytes": str(max_record_bytes(CONFIG))}
DELETED = {"cleanup.policy": "delete", "retention.ms": "604800000", **LARGE}
GOOD = {
    "tweets": ActualTopic(4, 1, DELETED | {"max.message.bytes": "1048588"}),
    "seed-articles": ActualTopic(1, 1, {"cleanup.policy": "compact"}),
    "matched-tweets": ActualTopic(4, 1, DELETED),
    "rejected-tweets": ActualTopic(4, 1, DELETED),
    "newsift-labels": ActualTopic(1, 1, {"cleanup.policy": "compact"}),
}


@pytest.mark.parametrize(
    ("replication", "copies", "safe"), [(None, 1, {}), (3, 3, {"min.insync.replicas": "2"})]
)
def test_new_topics_fit(replication: int | None, copies: int, safe: dict[str, str]) -> None:
    config = Config(topics=TopicsConfig(replication=replication))
    made: dict[str, ActualTopic | None] = {}
    for name, new in new_topics(config).items():
        settings = new.get("configs", {})
        assert settings.items() >= safe.items()
        made[name] = ActualTopic(
            new["num_partitions"], copies, {"cleanup.policy": "delete"} | settings
        )
    assert differences(config, made, copies) == []
    assert made["seed-articles"] == ActualTopic(1, copies, {"cleanup.policy": "compact"} | safe)


def test_missing_topics_come_first_with_the_command() -> None:
    bad = GOOD | {"tweets": None, "seed-articles": ActualTopic(4, 1, {"cleanup.policy": "delete"})}
    del bad["rejected-tweets"]
    actual = differences(CONFIG, bad, 1)
    assert [(d.topic, d.actual) for d in actual[:2]] == [
        ("tweets", "missing"), ("rejected-tweets", "missing"),
    ]  # fmt: skip
    assert [(d.setting, d.serious) for d in actual[2:]] == [
        ("partitions", True), ("cleanup.policy", True),
    ]  # fmt: skip
    assert create_command(CONFIG, "tweets") in actual[0].fix


def test_the_command_is_kafka_s_own() -> None:
    config = load_config(None, {"NEWSIFT_TOPICS__REPLICATION": "3", "NEWSIFT_KAFKA": "b:1"})
    assert create_command(config, "seed-articles") == (
        "kafka-topics.sh --bootstrap-server b:1 --create --topic seed-articles --partitions 1 "
        "--replication-factor 3 --config cleanup.policy=compact --config min.insync.replicas=2"
    )


def test_hidden_settings_are_one_difference() -> None:
    for name, topic in GOOD.items():
        actual = differences(CONFIG, GOOD | {name: replace(topic, settings={})}, 1)
        assert [(d.topic, d.setting, d.serious) for d in actual] == [(name, "settings", False)]
        assert f"--operation DescribeConfigs --topic {name}" in actual[0].fix


@pytest.mark.parametrize(
    ("name", "setting", "value", "required", "serious"),
    [
        *(("seed-articles", "cleanup.policy", value, "compact", True)
          for value in ("delete", "compact,delete", "delete, compact")),
        *((name, "cleanup.policy", "compact", "delete", True)
          for name in ("tweets", "matched-tweets", "rejected-tweets")),
        *((name, "max.message.bytes", "1048588", str(max_record_bytes(CONFIG)), False)
          for name in ("matched-tweets", "rejected-tweets")),
        ("rejected-tweets", "retention.ms", "3600000", "at least 86400000", False),
        ("tweets", "retention.ms", "60000", "at least 3600000", False),
    ],
)  # fmt: skip
def test_each_setting_has_a_required_value(
    name: str, setting: str, value: str, required: str, serious: bool
) -> None:
    changed = replace(GOOD[name], settings={**GOOD[name].settings, setting: value})
    [difference] = differences(CONFIG, GOOD | {name: changed}, 1)
    assert (difference.topic, difference.setting, difference.actual) == (name, setting, value)
    assert (difference.required, difference.serious) == (required, serious)


def test_one_partition_of_posts_is_for_one_worker() -> None:
    actual = differences(CONFIG, GOOD | {"tweets": ActualTopic(1, 1, DELETED)}, 1)
    assert [(d.setting, d.serious) for d in actual] == [("partitions", False)]
    alone = Config(topics=TopicsConfig(partitions=1))
    assert differences(alone, GOOD | {"tweets": ActualTopic(1, 1, DELETED)}, 1) == []


@pytest.mark.parametrize(
    ("required", "brokers", "expected"),
    [(None, 1, None), (None, 2, "2"), (None, 9, "3"), (2, 5, "2")],
)
def test_the_number_of_copies_depends_on_the_brokers(
    required: int | None, brokers: int, expected: str | None
) -> None:
    config = Config(topics=TopicsConfig(replication=required))
    actual = differences(config, GOOD, brokers)
    assert {(d.setting, d.required) for d in actual} == (
        {("replication", expected)} if expected else set()
    )
    assert len(actual) == (5 if expected else 0)


def test_of_three_copies_two_must_be_in_sync_and_never_more_than_there_are() -> None:
    def requirements(copies: int, least: str) -> list[tuple[str, bool]]:
        settings = {"cleanup.policy": "compact", "min.insync.replicas": least}
        actual = differences(CONFIG, GOOD | {"seed-articles": ActualTopic(1, copies, settings)}, 1)
        return [(d.required, d.serious) for d in actual if d.setting == "min.insync.replicas"]

    assert requirements(3, "1") == [("2", False)]
    assert requirements(3, "2") == requirements(2, "1") == requirements(1, "1") == []
    assert requirements(2, "3") == [("at most 2", True)]
