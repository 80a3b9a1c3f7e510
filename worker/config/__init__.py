"""The configuration: every key of config.yaml with its type, default and rule.

Each section goes to the code that it configures: `kafka` to the clients, `stream` to the stream.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import combinations
from pathlib import Path
from typing import Annotated, get_type_hints

from worker.config import rules
from worker.config.limits import DEFAULT_LIMITS, Limits
from worker.config.secret import Secret
from worker.errors import ConfigError

APP_ID = "newsift"  # Faust takes the consumer group of this name.
FORMATS = ("auto", "x", "x1", "bluesky", "mastodon", "plain")
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
ISOLATIONS = ("committed", "uncommitted")
CODECS = ("none", "gzip", "lz4", "zstd")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
GROUP = rules.Rule(
    f"a group other than {APP_ID!r}, which Faust takes",
    lambda x: rules.is_one_line(x) and x != APP_ID,
)


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the configuration; refuses invalid values."""

    def __post_init__(self) -> None:
        section = type(self).__name__.removesuffix("Config").lower()
        for name, key in section_keys(type(self)).items():
            value = getattr(self, name)
            if value is not None and not key.rule.test(value):
                raise ConfigError(f"{section}.{name}: {key.refusal(value)}")
        for complaint in self.complaints():
            raise ConfigError(f"{section}.{complaint}")

    def complaints(self) -> Iterator[str]:
        """Contradictions between keys that are valid by themselves."""
        return iter(())


@dataclass(frozen=True, slots=True)
class KafkaConfig(Section):
    bootstrap_servers: Annotated[str, rules.SERVERS] = "127.0.0.1:9092"
    group: Annotated[str, GROUP] = "newsift-ingest"
    instance_id: Annotated[str | None, rules.KAFKA_NAME] = None
    security_protocol: Annotated[str, rules.one_of(*PROTOCOLS)] = "PLAINTEXT"
    sasl_mechanism: Annotated[str | None, rules.one_of(*MECHANISMS)] = None
    username: Annotated[str | None, rules.LINE] = None
    password: Annotated[Secret | None, rules.SECRET] = None
    password_file: Annotated[Path | None, rules.FILE_PATH] = None
    ca_file: Annotated[Path | None, rules.FILE_PATH] = None
    cert_file: Annotated[Path | None, rules.FILE_PATH] = None
    key_file: Annotated[Path | None, rules.FILE_PATH] = None
    session_timeout_s: Annotated[float, rules.number_between(1, 1800)] = 30.0
    request_timeout_s: Annotated[float, rules.number_between(0.1, 600)] = 15.0
    isolation: Annotated[str, rules.one_of(*ISOLATIONS)] = "committed"
    compression: Annotated[str, rules.one_of(*CODECS)] = "gzip"

    def complaints(self) -> Iterator[str]:
        protocol = f"security_protocol {self.security_protocol}"
        login = {"sasl_mechanism": self.sasl_mechanism, "username": self.username,
                 "password": self.password}  # fmt: skip
        for name, value in login.items():
            if self.security_protocol.startswith("SASL") and value is None:
                remedy = "NEWSIFT_KAFKA__PASSWORD or kafka.password_file"
                remedy = remedy if name == "password" else f"kafka.{name}"
                yield f"{name}: null, and {protocol} needs one; set {remedy}"
            if not self.security_protocol.startswith("SASL") and value is not None:
                yield f"{name}: set, and {protocol} has no login; set SASL_SSL or leave it out"
        for name in ("ca_file", "cert_file", "key_file"):
            if not self.security_protocol.endswith("SSL") and getattr(self, name) is not None:
                yield f"{name}: set, and {protocol} has no TLS; set SSL or SASL_SSL"
        if self.key_file is not None and self.cert_file is None:
            yield "key_file: set, and cert_file is not; set both"


@dataclass(frozen=True, slots=True)
class TopicsConfig(Section):
    posts: Annotated[str, rules.KAFKA_NAME] = "tweets"
    seeds: Annotated[str, rules.KAFKA_NAME] = "seed-articles"
    matches: Annotated[str, rules.KAFKA_NAME] = "matched-tweets"
    rejected: Annotated[str, rules.KAFKA_NAME] = "rejected-tweets"
    labels: Annotated[str, rules.KAFKA_NAME] = "newsift-labels"
    create: Annotated[bool, rules.TRUE_OR_FALSE] = True
    partitions: Annotated[int, rules.whole_number(1, 10_000)] = 4
    replication: Annotated[int | None, rules.whole_number(1, 100)] = None

    def complaints(self) -> Iterator[str]:
        for role, other_role in combinations(
            ("posts", "seeds", "matches", "rejected", "labels"), 2
        ):
            if getattr(self, role) == getattr(self, other_role):
                name = getattr(self, other_role)
                yield f"{other_role}: {name!r} is topics.{role} too; give each its own name"


@dataclass(frozen=True, slots=True)
class PostsConfig(Section):
    format: Annotated[str, rules.one_of(*FORMATS)] = "auto"
    langs: Annotated[str | None, rules.LANGUAGES] = None
    compare: Annotated[str, rules.POST_PARTS] = "text,alt,card"


@dataclass(frozen=True, slots=True)
class LimitsConfig(Limits, Section):
    post_bytes: Annotated[int, rules.whole_number(1, 2**30)] = DEFAULT_LIMITS.post_bytes
    article_bytes: Annotated[int, rules.whole_number(1, 2**30)] = DEFAULT_LIMITS.article_bytes
    list_items: Annotated[int, rules.whole_number(1, 2**30)] = DEFAULT_LIMITS.list_items
    marks: Annotated[int, rules.whole_number(1, 1000)] = DEFAULT_LIMITS.marks
    seeds: Annotated[int, rules.whole_number(1, 10_000_000)] = DEFAULT_LIMITS.seeds


@dataclass(frozen=True, slots=True)
class MatchingConfig(Section):
    threshold: Annotated[float | None, rules.THRESHOLD] = None
    background_rate: Annotated[float, rules.RATE] = 0.001
    total_rate: Annotated[float | None, rules.RATE] = None
    background: Annotated[Path | None, rules.FILE_PATH] = None
    reader: Annotated[str, rules.one_of("read", "skim")] = "read"
    read_factor: Annotated[float, rules.READ_FACTOR] = 5.0
    max_matches: Annotated[int, rules.whole_number(1, 1000)] = 10
    why: Annotated[bool, rules.TRUE_OR_FALSE] = True
    links: Annotated[bool, rules.TRUE_OR_FALSE] = True

    @property
    def automatic_rate(self) -> float:
        """The share of the background that passes each seed, or any of them."""
        return self.background_rate if self.total_rate is None else self.total_rate

    @property
    def rate_key(self) -> str:
        return "matching.background_rate" if self.total_rate is None else "matching.total_rate"


@dataclass(frozen=True, slots=True)
class ModelConfig(Section):
    name: Annotated[str, rules.LINE] = "default"
    device: Annotated[str, rules.one_of("auto", "cpu", "cuda")] = "auto"
    threads: Annotated[int | None, rules.whole_number(1, 1024)] = None


@dataclass(frozen=True, slots=True)
class StreamConfig(Section):
    in_flight: Annotated[int, rules.whole_number(1, 64)] = 3
    batch_bytes: Annotated[int, rules.whole_number(1024, 2**30)] = 2**22
    batch_posts: Annotated[int, rules.whole_number(1, 1_000_000)] = 8192
    produce_deadline_s: Annotated[float, rules.number_between(0.1, 3600)] = 30.0
    stall_s: Annotated[float, rules.number_between(1, 86_400)] = 60.0
    shutdown_s: Annotated[float, rules.number_between(0.1, 600)] = 10.0


@dataclass(frozen=True, slots=True)
class WebConfig(Section):
    host: Annotated[str, rules.LINE] = "127.0.0.1"
    port: Annotated[int | None, rules.whole_number(0, 65_535)] = None


@dataclass(frozen=True, slots=True)
class DeskConfig(Section):
    host: Annotated[str, rules.LINE] = "127.0.0.1"
    token: Annotated[Secret | None, rules.SECRET] = None
    token_file: Annotated[Path | None, rules.FILE_PATH] = None
    workers: Annotated[str | None, rules.SERVERS] = None
    matches_bytes: Annotated[int, rules.whole_number(2**20, 2**36)] = 160 * 2**20


@dataclass(frozen=True, slots=True)
class LogConfig(Section):
    level: Annotated[str, rules.one_of("debug", "info", "warning", "error", "critical")] = "info"
    format: Annotated[str, rules.one_of("text", "json")] = "text"


def section_keys(section: type[Section]) -> dict[str, rules.Key]:
    hints = get_type_hints(section, include_extras=True)
    return {
        item.name: rules.Key.from_hint(hints[item.name], item.default) for item in fields(section)
    }


@dataclass(frozen=True, slots=True)
class Config:
    kafka: KafkaConfig = KafkaConfig()
    topics: TopicsConfig = TopicsConfig()
    posts: PostsConfig = PostsConfig()
    limits: LimitsConfig = LimitsConfig()
    matching: MatchingConfig = MatchingConfig()
    model: ModelConfig = ModelConfig()
    stream: StreamConfig = StreamConfig()
    web: WebConfig = WebConfig()
    desk: DeskConfig = DeskConfig()
    log: LogConfig = LogConfig()


SECTIONS: dict[str, type[Section]] = get_type_hints(Config)
KEYS = {name: section_keys(section) for name, section in SECTIONS.items()}
