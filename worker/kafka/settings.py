"""Settings of the Kafka clients, and the reason why a broker cannot be reached."""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from encoder.support.files import read_regular
from worker.config import APP_ID, Config
from worker.errors import AccessError, BrokerError, ConfigError
from worker.kafka.errors import (
    NO_TLS_MESSAGE,
    Verdict,
    describe,
    error_chain,
    explain,
    is_unreachable,
    tls_refusal,
)

MAX_CONNECT_S = 2.0
MAX_DIAGNOSIS_S = 3.0
MAX_ADDRESSES = 3
START_REMEDY = "start it (`newsift broker` runs a small one), or set NEWSIFT_KAFKA"

LOGIN_MISSING = (
    "closes the connection of a client that does not log in; set kafka.security_protocol to "
    "SASL_PLAINTEXT or SASL_SSL, and kafka.sasl_mechanism"
)


def require_listener(config: Config) -> None:
    """Fails at once if no broker listens; a client would retry for seconds."""
    import kafka.errors

    last_error: OSError | None = None
    for address in config.kafka.bootstrap_servers.split(","):
        try:
            socket.create_connection(_host_and_port(address), MAX_CONNECT_S).close()
            return
        except OSError as error:
            last_error = error
    raise kafka.errors.KafkaConnectionError(str(last_error)) from last_error


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.strip().rpartition(":")
    return host.strip("[]"), int(port)


def diagnose_connection(
    error: BaseException, settings: Mapping[str, Any], config: Config
) -> Verdict:
    """Tries the addresses of the broker step by step; the first refusal is the reason."""
    context = settings.get("ssl_context")
    addresses = settings["bootstrap_servers"][:MAX_ADDRESSES]
    verdicts = [
        verdict for address in addresses if (verdict := _diagnose_address(address, context))
    ]
    refusals = [verdict for verdict in verdicts if verdict[0] is AccessError]
    if refusals or len(verdicts) == len(addresses):
        return (refusals or verdicts)[0]
    protocol = config.kafka.security_protocol
    remedy = f"see its log, and whether its listener is kafka.security_protocol {protocol}"
    cause = next((one for one in error_chain(error) if is_unreachable(one)), error)
    no_answer = BrokerError, f"does not answer ({describe(cause)}); {remedy}"
    return _diagnose_login(addresses, settings, config) or no_answer


def _diagnose_address(address: str, context: ssl.SSLContext | None) -> Verdict | None:
    """What is wrong as far as sockets can tell, or None."""
    place = _host_and_port(address)
    try:
        with socket.create_connection(place, MAX_DIAGNOSIS_S) as plain:
            return _diagnose_tls(plain, place[0], context)
    except socket.gaierror:
        return BrokerError, f"the host {place[0]} is not known; check NEWSIFT_KAFKA"
    except TimeoutError:
        return (
            BrokerError,
            f"no answer within {MAX_DIAGNOSIS_S:g} s; check the address and the firewall",
        )
    except OSError as error:
        return BrokerError, f"nobody listens there ({error.strerror or error}); {START_REMEDY}"


def _diagnose_tls(
    plain: socket.socket, host: str, context: ssl.SSLContext | None
) -> Verdict | None:
    """What is wrong with the broker's TLS, or with our lack of it."""
    greeting = context or ssl.create_default_context()
    if context is None:
        greeting.check_hostname, greeting.verify_mode = False, ssl.CERT_NONE
    try:
        with greeting.wrap_socket(plain, server_hostname=host):
            verdict = AccessError, "speaks TLS; set kafka.security_protocol to SSL or SASL_SSL"
            return None if context else verdict
    except OSError as error:
        fault = tls_refusal(error) if isinstance(error, ssl.SSLError) else NO_TLS_MESSAGE
        return (AccessError, fault) if context else None


def _diagnose_login(
    addresses: Sequence[str], settings: Mapping[str, Any], config: Config
) -> Verdict | None:
    """Logs in at one address after the other, because clients hide the reason."""
    # A thread of its own: the caller may be a coroutine, whose event loop must not run another.
    with ThreadPoolExecutor(1) as executor:
        errors = executor.submit(asyncio.run, _try_logins(addresses, settings)).result()
    verdicts = [explain(error, config) for error in errors]
    return next((verdict for verdict in verdicts if verdict), None)


async def _try_logins(addresses: Sequence[str], settings: Mapping[str, Any]) -> list[BaseException]:
    from aiokafka.conn import create_conn, log

    login = {key: value for key, value in settings.items() if key != "bootstrap_servers"}
    login["request_timeout_ms"] = round(MAX_DIAGNOSIS_S * 1000)
    errors: list[BaseException] = []
    was_disabled, log.disabled = log.disabled, True
    for address in addresses:
        try:
            connection = await create_conn(*_host_and_port(address), **login)
            try:
                if "sasl_mechanism" not in login:
                    await _request_metadata(connection)
            finally:
                connection.close()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is explained or passed over
            errors.append(error)
    log.disabled = was_disabled
    return errors


async def _request_metadata(connection: Any) -> None:
    """A broker that requires a login disconnects a client that sends this."""
    from aiokafka.errors import KafkaConnectionError
    from aiokafka.protocol.metadata import MetadataRequest

    try:
        await connection.send(MetadataRequest([], allow_auto_topic_creation=False))
    except KafkaConnectionError:
        raise AccessError(LOGIN_MISSING) from None


MAX_PEM_BYTES = 2**24
MAX_BOOTSTRAP_S = 5.0  # A command soon reports that no broker answers.


def aiokafka_settings(config: Config) -> dict[str, Any]:
    """Settings of aiokafka's consumers, producers and admin clients."""
    kafka = config.kafka
    settings: dict[str, Any] = {
        "bootstrap_servers": [part.strip() for part in kafka.bootstrap_servers.split(",")],
        "client_id": APP_ID,
        "security_protocol": kafka.security_protocol,
        "request_timeout_ms": round(kafka.request_timeout_s * 1000),
    }
    if context := tls_context(config):
        settings["ssl_context"] = context
    if kafka.security_protocol.startswith("SASL"):
        assert kafka.password is not None  # Config refuses SASL without one
        settings |= {
            "sasl_mechanism": kafka.sasl_mechanism,
            "sasl_plain_username": kafka.username,
            "sasl_plain_password": kafka.password.reveal(),
        }
    return settings


def kafka_python_settings(config: Config) -> dict[str, Any]:
    """Settings of kafka-python's consumers, producers and admin clients."""
    wait = min(MAX_BOOTSTRAP_S, config.kafka.request_timeout_s)
    return aiokafka_settings(config) | {"bootstrap_timeout_ms": round(wait * 1000)}


def aiokafka_producer_settings(config: Config) -> dict[str, Any]:
    return aiokafka_settings(config) | {"compression_type": compression_type(config)}


def compression_type(config: Config) -> str | None:
    codec = config.kafka.compression
    return None if codec == "none" else codec


def isolation_level(config: Config) -> str:
    return f"read_{config.kafka.isolation}"


@contextmanager
def broker_errors(config: Config) -> Iterator[None]:
    """Turns kafka-python's exceptions into one line with the broker and the remedy."""
    import kafka.errors

    if os.environ.get("NEWSIFT_DEBUG") != "1":
        logging.getLogger("kafka").addHandler(logging.NullHandler())
        logging.getLogger("kafka").propagate = False
    try:
        if not uses_tls(config):  # a handshake that is cut short would stand in the broker's log
            require_listener(config)
        yield
    except kafka.errors.KafkaError as error:
        raise broker_error(error, config) from error


def broker_error(error: BaseException, config: Config) -> AccessError | BrokerError:
    """A client's error as one line with the broker's address and the remedy, no secret.

    A client that cannot connect rarely says why, so the address is tried here, for a few seconds.
    """
    if isinstance(error, AccessError | BrokerError):
        return error
    verdict = explain(error, config)
    kind, message = verdict or diagnose_connection(error, aiokafka_settings(config), config)
    return kind(hide_password(f"broker {config.kafka.bootstrap_servers}: {message}", config))


def hide_password(line: str, config: Config) -> str:
    """A message on one line, in which the password is replaced."""
    secret = config.kafka.password
    line = " ".join(line.split())
    return line.replace(secret.reveal(), str(secret)) if secret else line


def uses_tls(config: Config) -> bool:
    return config.kafka.security_protocol.endswith("SSL")


def tls_context(config: Config) -> ssl.SSLContext | None:
    if not uses_tls(config):
        return None
    kafka = config.kafka
    for key in ("ca_file", "cert_file", "key_file"):
        if path := getattr(kafka, key):  # OpenSSL would wait for what never ends
            with _pem_errors(key, path, "certificates or a key"):
                read_regular(path, MAX_PEM_BYTES)
    with _pem_errors("ca_file", kafka.ca_file, "one or more certificates"):
        context = ssl.create_default_context(cafile=kafka.ca_file)
    if kafka.cert_file:
        with _pem_errors("cert_file", kafka.cert_file, "a certificate and its key, not encrypted"):
            # A password of our own: OpenSSL would else ask for one on the terminal, and wait.
            context.load_cert_chain(kafka.cert_file, kafka.key_file, password=lambda: "")
    return context


@contextmanager
def _pem_errors(key: str, path: Path | None, content: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
        raise ConfigError(
            f"kafka.{key}: {path} is refused ({reason}); give a PEM file with {content}"
        ) from error
