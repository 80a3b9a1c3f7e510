"""How every client reaches the broker, and what its errors mean: TLS and SASL in one place."""

import logging
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from encoder.support.files import read_regular
from worker.config import APP_ID, Config
from worker.errors import AccessError, BrokerError, ConfigError
from worker.kafka.errors import meaning
from worker.kafka.reach import knock, unreachable

LARGEST_PEM = 2**24  # bytes
BOOTSTRAP_S = 5.0  # a command should say soon that nobody answers


def aiokafka_settings(config: Config) -> dict[str, Any]:
    """The settings that aiokafka's consumer, producer and admin client share."""
    kafka = config.kafka
    found: dict[str, Any] = {
        "bootstrap_servers": [part.strip() for part in kafka.bootstrap_servers.split(",")],
        "client_id": APP_ID,
        "security_protocol": kafka.security_protocol,
        "request_timeout_ms": round(kafka.request_timeout_s * 1000),
    }
    if context := tls_context(config):
        found["ssl_context"] = context
    if kafka.security_protocol.startswith("SASL"):
        assert kafka.password is not None  # Config refuses SASL without one
        found |= {
            "sasl_mechanism": kafka.sasl_mechanism,
            "sasl_plain_username": kafka.username,
            "sasl_plain_password": kafka.password.reveal(),
        }
    return found


def kafka_python_settings(config: Config) -> dict[str, Any]:
    """The settings that kafka-python's consumer, producer and admin client share."""
    wait = min(BOOTSTRAP_S, config.kafka.request_timeout_s)
    return aiokafka_settings(config) | {"bootstrap_timeout_ms": round(wait * 1000)}


def aiokafka_producer_settings(config: Config) -> dict[str, Any]:
    """The settings of an aiokafka producer."""
    return aiokafka_settings(config) | {"compression_type": compression_type(config)}


def compression_type(config: Config) -> str | None:
    """What both clients' producers call kafka.compression."""
    codec = config.kafka.compression
    return None if codec == "none" else codec


def isolation_level(config: Config) -> str:
    """What both clients' consumers call kafka.isolation."""
    return f"read_{config.kafka.isolation}"


@contextmanager
def speaking(config: Config) -> Iterator[None]:
    """Turn what kafka-python raises into one line that names the broker and the remedy."""
    import kafka.errors

    if os.environ.get("NEWSIFT_DEBUG") != "1":
        logging.getLogger("kafka").addHandler(logging.NullHandler())
        logging.getLogger("kafka").propagate = False
    try:
        if not uses_tls(config):  # a handshake that is cut short would stand in the broker's log
            knock(config)
        yield
    except kafka.errors.KafkaError as error:
        raise broker_error(error, config) from error


def broker_error(error: BaseException, config: Config) -> AccessError | BrokerError:
    """A client's error as one line with the broker's address and the remedy, and no secret.

    A client that cannot connect seldom says why: then the address is tried here, for a few seconds.
    """
    if isinstance(error, AccessError | BrokerError):
        return error
    verdict = meaning(error, config)
    kind, said = verdict or unreachable(error, aiokafka_settings(config), config)
    return kind(redacted(f"broker {config.kafka.bootstrap_servers}: {said}", config))


def redacted(line: str, config: Config) -> str:
    """One line without the password, should a client have put it there."""
    secret = config.kafka.password
    line = " ".join(line.split())
    return line.replace(secret.reveal(), str(secret)) if secret else line


def uses_tls(config: Config) -> bool:
    """Whether the connection to the broker is encrypted."""
    return config.kafka.security_protocol.endswith("SSL")


def tls_context(config: Config) -> ssl.SSLContext | None:
    """The TLS side of the connection; none if it is not encrypted."""
    if not uses_tls(config):
        return None
    kafka = config.kafka
    for key in ("ca_file", "cert_file", "key_file"):
        if path := getattr(kafka, key):  # OpenSSL would wait for what never ends
            with _refusing(key, path, "certificates or a key"):
                read_regular(path, LARGEST_PEM)
    with _refusing("ca_file", kafka.ca_file, "one or more certificates"):
        context = ssl.create_default_context(cafile=kafka.ca_file)
    if kafka.cert_file:
        with _refusing("cert_file", kafka.cert_file, "a certificate and its key, not encrypted"):
            # A password of our own: OpenSSL would else ask for one on the terminal, and wait.
            context.load_cert_chain(kafka.cert_file, kafka.key_file, password=lambda: "")
    return context


@contextmanager
def _refusing(key: str, path: Path | None, wanted: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
        raise ConfigError(
            f"kafka.{key}: {path} is refused ({said}); give a PEM file with {wanted}"
        ) from error
