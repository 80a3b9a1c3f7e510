"""Creates missing topics and checks existing ones."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from worker.config import Config
from worker.errors import AccessError, ConfigError
from worker.kafka.errors import class_names, describe, user_name
from worker.kafka.rules import (
    HIDDEN,
    ActualTopic,
    Difference,
    create_command,
    differences,
    new_topics,
)
from worker.kafka.settings import broker_errors, kafka_python_settings

CHECKED_SETTINGS = ("cleanup.policy", "max.message.bytes", "retention.ms", "min.insync.replicas")
REFUSAL_ERRORS = ("TopicAuthorizationFailedError", "ClusterAuthorizationFailedError",
           "PolicyViolationError", "SecurityDisabledError")  # fmt: skip
REPLICATION_ERRORS = ("InvalidReplicationFactorError", "InvalidReplicationAssignmentError")
log = logging.getLogger("newsift.kafka")


@contextmanager
def admin_client(config: Config) -> Iterator[Any]:
    import kafka

    with broker_errors(config):
        admin = kafka.KafkaAdminClient(**kafka_python_settings(config))
        try:
            yield admin
        finally:
            admin.close()


def ensure_topics(config: Config) -> list[str]:
    """Create the worker's missing topics, or fail with the command that creates them.

    Existing topics that break a rule are refused.
    """
    with admin_client(config) as admin:
        names = [name for name in new_topics(config) if name != config.topics.labels]
        names_created = _create_missing(admin, config, names)
        found = _differences(admin, config)
        _refuse_serious(found, config)
        if unchecked := [d.topic for d in found if d.setting == "settings" and d.topic in names]:
            log.warning(
                "the settings of %s are not checked: %s may not read them; grant "
                "DescribeConfigs, see `newsift topics check`",
                ", ".join(unchecked), user_name(config),
            )  # fmt: skip
        return names_created


def ensure_topic(config: Config, name: str) -> None:
    """Makes one of the topics if it is missing."""
    with admin_client(config) as admin:
        _create_missing(admin, config, [name])


def ensure_labels(config: Config) -> list[Difference]:
    """Creates the labels topic if it is missing; returns its differences from the rules."""
    with admin_client(config) as admin:
        _create_missing(admin, config, [config.topics.labels])
        return [d for d in _differences(admin, config) if d.topic == config.topics.labels]


def require_fit_topics(config: Config) -> None:
    _refuse_serious(check_topics(config), config)


def create_topics(config: Config) -> list[str]:
    """Creates missing topics even with topics.create: false, because a person asked for it."""
    with admin_client(config) as admin:
        return _create(admin, config, _missing_names(admin, [*new_topics(config)]))


def check_topics(config: Config) -> list[Difference]:
    with admin_client(config) as admin:
        return _differences(admin, config)


def _differences(admin: Any, config: Config) -> list[Difference]:
    return differences(config, _read_topics(admin, new_topics(config)), broker_count(admin))


def broker_count(admin: Any) -> int:
    """As the client read it at its start. Its describe_cluster fails on Kafka 2.8 to 3.6."""
    return len(admin._manager.cluster.brokers())


def _create_missing(admin: Any, config: Config, names: Sequence[str]) -> list[str]:
    """Refused where topics.create is false."""
    missing = _missing_names(admin, names)
    if missing and not config.topics.create:
        raise AccessError(_creation_remedy(config, missing, "topics.create is false"))
    return _create(admin, config, missing)


def _refuse_serious(differences: Iterable[Difference], config: Config) -> None:
    """Raises for settings of the worker's topics that would lose data. A hidden topic may exist."""
    own = [difference for difference in differences if difference.topic != config.topics.labels]
    serious = [
        difference for difference in own if difference.serious and difference.setting != "topic"
    ]
    if not serious:
        return
    first = serious[0]
    more = f"; {len(serious) - 1} more: see `newsift topics check`" if serious[1:] else ""
    raise AccessError(
        f"topic {first.topic}: {first.setting} is {first.actual}, must be {first.required}: "
        f"{first.why}; {first.fix}{more}"
    )


def topic_exists(admin: Any, name: str) -> bool:
    """Raises if the user has no right to know."""
    return not _missing_names(admin, [name])


def _missing_names(admin: Any, names: Sequence[str]) -> list[str]:
    """Raises if the user has no right to know."""
    from kafka.errors import TopicAuthorizationFailedError

    topics = _describe_topics(admin, names)
    if hidden := {name for name, topic in topics.items() if topic is HIDDEN}:
        raise TopicAuthorizationFailedError(hidden)
    return [name for name, topic in topics.items() if topic is None]


def _create(admin: Any, config: Config, missing: Sequence[str]) -> list[str]:
    """Another worker may create them at the same time."""
    from kafka.errors import BrokerResponseError

    created = []
    for name in missing:
        try:
            admin.create_topics({name: new_topics(config)[name]})
            created.append(name)
        except BrokerResponseError as error:
            _handle_create_error(error, config, missing)
    if missing:
        admin.wait_for_topics(list(missing))
    return created


def _handle_create_error(error: Exception, config: Config, missing: Sequence[str]) -> None:
    kinds = class_names(error)
    if "TopicAlreadyExistsError" in kinds:
        return
    if kinds & set(REPLICATION_ERRORS):
        raise ConfigError(
            f"topics.replication: {config.topics.replication} is refused by the broker "
            f"({describe(error)}); give at most the number of its brokers"
        ) from error
    if kinds & set(REFUSAL_ERRORS):
        why = f"the broker refuses ({describe(error)})"
        raise AccessError(_creation_remedy(config, missing, why)) from error
    raise error


def _creation_remedy(config: Config, missing: Sequence[str], why: str) -> str:
    return (
        f"broker {config.kafka.bootstrap_servers}: missing topics {', '.join(missing)}, and "
        f"{why}; run `newsift topics create` as a user who may create topics, or "
        f"{create_command(config, missing[0])}"
    )


def _read_topics(admin: Any, names: Iterable[str]) -> dict[str, ActualTopic | None]:
    from kafka.admin import ConfigResource

    topics = _describe_topics(admin, names)
    present = {name: topic for name, topic in topics.items() if topic and topic is not HIDDEN}
    if not present:
        return topics
    resources = [ConfigResource("topic", name, dict.fromkeys(CHECKED_SETTINGS)) for name in present]
    settings = admin.describe_configs(resources, config_filter="all")["topic"]
    return topics | {
        name: replace(topic, settings={k: item["value"] for k, item in settings[name].items()})
        for name, topic in present.items()
    }


def _describe_topics(admin: Any, names: Iterable[str]) -> dict[str, ActualTopic | None]:
    """Without their settings; None for a missing topic.

    They are asked for by name: a list of all topics leaves out those that the user may not see.
    """
    return {topic["name"]: _actual_topic(topic) for topic in admin.describe_topics([*names])}


def _actual_topic(topic: Mapping[str, Any]) -> ActualTopic | None:
    from kafka.errors import TopicAuthorizationFailedError, UnknownTopicOrPartitionError, for_code

    code = topic["error_code"]
    if code == UnknownTopicOrPartitionError.errno:
        return None
    if code == TopicAuthorizationFailedError.errno:
        return HIDDEN
    if code:
        raise for_code(code)(topic["name"])
    copies = min(len(partition["replica_nodes"]) for partition in topic["partitions"])
    return ActualTopic(len(topic["partitions"]), copies, {})
