"""How every client reaches the broker, and what its errors mean: TLS and SASL in one place."""

import ssl
from pathlib import Path
from typing import Any

from encoder.support.files import read_regular
from worker.config import APP_ID, Config
from worker.errors import AccessError, BrokerError, ConfigError
from worker.kafka.errors import explained
from worker.kafka.reach import unreachable

LARGEST_PEM = 2**24  # bytes
BOOTSTRAP_S = 5.0  # a command should say soon that nobody answers


def aiokafka_settings(config: Config) -> dict[str, Any]:
    """The settings that aiokafka's consumer, producer and admin client share."""
    return _settings(config)


def kafka_python_settings(config: Config) -> dict[str, Any]:
    """The settings that kafka-python's consumer, producer and admin client share."""
    wait = min(BOOTSTRAP_S, config.kafka.request_timeout_s)
    return _settings(config) | {"bootstrap_timeout_ms": round(wait * 1000)}


def isolation_level(config: Config) -> str:
    """What both clients' consumers call kafka.isolation."""
    return f"read_{config.kafka.isolation}"


def broker_error(error: BaseException, config: Config) -> AccessError | BrokerError:
    """A client's error as one line with the broker's address and the remedy, and no secret.

    A client that cannot connect seldom says why: then the address is tried here, for a few seconds.
    """
    if isinstance(error, AccessError | BrokerError):
        return error
    verdict = explained(error, config)
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


def uses_sasl(config: Config) -> bool:
    """Whether the client logs in."""
    return config.kafka.security_protocol.startswith("SASL")


def tls_context(config: Config) -> ssl.SSLContext | None:
    """The TLS side of the connection; none if it is not encrypted."""
    if not uses_tls(config):
        return None
    kafka = config.kafka
    _check_files(config)
    try:
        context = ssl.create_default_context(cafile=_name(kafka.ca_file))
    except (OSError, ValueError) as error:
        raise _bad_file("ca_file", kafka.ca_file, "one or more certificates", error) from error
    if kafka.cert_file:
        try:
            # A password of our own: OpenSSL would else ask for one on the terminal, and wait.
            context.load_cert_chain(kafka.cert_file, _name(kafka.key_file), password=lambda: "")
        except (OSError, ValueError) as error:
            wanted = "a certificate and its key, not encrypted"
            raise _bad_file("cert_file", kafka.cert_file, wanted, error) from error
    return context


def _settings(config: Config) -> dict[str, Any]:
    kafka = config.kafka
    found: dict[str, Any] = {
        "bootstrap_servers": [part.strip() for part in kafka.bootstrap_servers.split(",")],
        "client_id": APP_ID,
        "security_protocol": kafka.security_protocol,
        "request_timeout_ms": round(kafka.request_timeout_s * 1000),
    }
    if uses_tls(config):
        found["ssl_context"] = tls_context(config)
    if uses_sasl(config):
        assert kafka.password is not None  # Config refuses SASL without one
        found |= {
            "sasl_mechanism": kafka.sasl_mechanism,
            "sasl_plain_username": kafka.username,
            "sasl_plain_password": kafka.password.reveal(),
        }
    return found


def _check_files(config: Config) -> None:
    """Refuse what OpenSSL would wait for."""
    for key in ("ca_file", "cert_file", "key_file"):
        path = getattr(config.kafka, key)
        try:
            if path is not None:
                read_regular(path, LARGEST_PEM)
        except OSError as error:
            raise _bad_file(key, path, "certificates or a key", error) from error


def _name(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _bad_file(key: str, path: Path | None, wanted: str, error: Exception) -> ConfigError:
    reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
    return ConfigError(f"kafka.{key}: {path} is refused ({reason}); give a PEM file with {wanted}")
