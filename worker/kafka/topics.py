"""Creates missing topics and checks existing ones."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from worker.config import Config
from worker.errors import AccessError, ConfigError
from worker.kafka.errors import describe, names
from worker.kafka.rules import Actual, Difference, differences, kafka_topics, new_topics
from worker.kafka.settings import kafka_python_settings, speaking

SETTINGS = ("cleanup.policy", "max.message.bytes", "retention.ms", "min.insync.replicas")
REFUSED = ("TopicAuthorizationFailedError", "ClusterAuthorizationFailedError",
           "PolicyViolationError", "SecurityDisabledError")  # fmt: skip
COPIES = ("InvalidReplicationFactorError", "InvalidReplicationAssignmentError")


@contextmanager
def administering(config: Config) -> Iterator[Any]:
    """A KafkaAdminClient; closed at the end."""
    import kafka

    with speaking(config):
        admin = kafka.KafkaAdminClient(**kafka_python_settings(config))
        try:
            yield admin
        finally:
            admin.close()


def ensure_topics(config: Config) -> list[str]:
    """Create the worker's missing topics, or fail with the command that creates them.

    Existing topics that break a rule are refused.
    """
    with administering(config) as admin:
        labels = config.topics.labels
        created = _make(admin, config, [name for name in new_topics(config) if name != labels])
        _refuse(
            difference for difference in _differences(admin, config) if difference.topic != labels
        )
        return created


def ensure_posts(config: Config) -> None:
    """Create the topic of posts if it is missing, for processes that only write posts."""
    with administering(config) as admin:
        _make(admin, config, [config.topics.posts])


def ensure_labels(config: Config) -> list[Difference]:
    """Create the labels topic if it is missing; returns its differences from the rules."""
    with administering(config) as admin:
        _make(admin, config, [config.topics.labels])
        return [d for d in _differences(admin, config) if d.topic == config.topics.labels]


def refuse_unfit(config: Config) -> None:
    _refuse(
        difference
        for difference in check_topics(config)
        if difference.topic != config.topics.labels
    )


def create_topics(config: Config) -> list[str]:
    """Create the missing topics, even with topics.create: false, as a person requested it."""
    with administering(config) as admin:
        return _create(admin, config, _missing(admin, config))


def check_topics(config: Config) -> list[Difference]:
    """The differences of the broker's topics from the rules."""
    with administering(config) as admin:
        return _differences(admin, config)


def _differences(admin: Any, config: Config) -> list[Difference]:
    brokers = len(admin.describe_cluster()["brokers"])
    return differences(config, _actual(admin, new_topics(config)), brokers)


def _make(admin: Any, config: Config, names: Sequence[str]) -> list[str]:
    """Create missing topics, if allowed."""
    missing = [name for name in _missing(admin, config) if name in names]
    if missing and not config.topics.create:
        raise AccessError(_say_how(config, missing, "topics.create is false"))
    return _create(admin, config, missing)


def _refuse(differences: Iterable[Difference]) -> None:
    """Refuse topics that would lose seeds or stop the worker later; hidden topics may exist."""
    unfit = [each for each in differences if each.serious and each.setting != "topic"]
    if not unfit:
        return
    first = unfit[0]
    more = f"; {len(unfit) - 1} more: see `newsift topics check`" if unfit[1:] else ""
    raise AccessError(
        f"topic {first.topic}: {first.setting} is {first.actual}, must be {first.required}: "
        f"{first.why}; {first.fix}{more}"
    )


def _missing(admin: Any, config: Config) -> list[str]:
    there = set(admin.list_topics())
    return [name for name in new_topics(config) if name not in there]


def _create(admin: Any, config: Config, missing: Sequence[str]) -> list[str]:
    """Create these topics; ignore those that another worker created first."""
    from kafka.errors import BrokerResponseError

    created = []
    for name in missing:
        try:
            admin.create_topics({name: new_topics(config)[name]})
            created.append(name)
        except BrokerResponseError as error:
            _weigh(error, config, missing)
    if missing:
        admin.wait_for_topics(list(missing))
    return created


def _weigh(error: Exception, config: Config, missing: Sequence[str]) -> None:
    """Ignore a topic that exists by now; raise any other error with its remedy."""
    kinds = names(error)
    if "TopicAlreadyExistsError" in kinds:
        return
    if kinds & set(COPIES):
        raise ConfigError(
            f"topics.replication: {config.topics.replication} is refused by the broker "
            f"({describe(error)}); give at most the number of its brokers"
        ) from error
    if kinds & set(REFUSED):
        why = f"the broker refuses ({describe(error)})"
        raise AccessError(_say_how(config, missing, why)) from error
    raise error


def _say_how(config: Config, missing: Sequence[str], why: str) -> str:
    return (
        f"broker {config.kafka.bootstrap_servers}: missing topics {', '.join(missing)}, and "
        f"{why}; run `newsift topics create` as somebody who may, or as with "
        f"{kafka_topics(config, missing[0])}"
    )


def _actual(admin: Any, names: Iterable[str]) -> dict[str, Actual | None]:
    from kafka.admin import ConfigResource

    there = sorted({*admin.list_topics()} & {*names})
    if not there:
        return {}
    resources = [ConfigResource("topic", name, dict.fromkeys(SETTINGS)) for name in there]
    settings = admin.describe_configs(resources, config_filter="all")["topic"]
    return {
        topic["name"]: Actual(
            len(topic["partitions"]),
            min(len(part["replica_nodes"]) for part in topic["partitions"]),
            {key: item["value"] for key, item in settings[topic["name"]].items()},
        )
        for topic in admin.describe_topics(there)
    }
