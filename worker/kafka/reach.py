"""Why a broker cannot be reached: its address is tried step by step, for a few seconds."""

import asyncio
import socket
import ssl
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from worker.config import Config
from worker.errors import AccessError, BrokerError
from worker.kafka.errors import NO_TLS_SAID, Verdict, chain, is_unreachable, meaning, tls_said, told

KNOCK_S = 2.0
PATIENCE_S = 3.0
ADDRESSES = 3  # tried at most, so that it does not take for ever
START = "start it (`newsift broker` runs a small one), or set NEWSIFT_KAFKA"

NO_LOGIN = (
    "hangs up on who does not log in; set kafka.security_protocol to SASL_PLAINTEXT or SASL_SSL, "
    "and kafka.sasl_mechanism"
)


def knock(config: Config) -> None:
    """Fail at once where nobody listens: a client would go on trying for seconds."""
    import kafka.errors

    failed: OSError | None = None
    for address in config.kafka.bootstrap_servers.split(","):
        try:
            socket.create_connection(_place(address), KNOCK_S).close()
            return
        except OSError as error:
            failed = error
    raise kafka.errors.KafkaConnectionError(str(failed)) from failed


def _place(address: str) -> tuple[str, int]:
    """The host and the port of an address."""
    host, _, port = address.strip().rpartition(":")
    return host.strip("[]"), int(port)


def unreachable(error: BaseException, settings: Mapping[str, Any], config: Config) -> Verdict:
    """Try the addresses of the broker; the first that refuses us says why."""
    context = settings.get("ssl_context")
    addresses = settings["bootstrap_servers"][:ADDRESSES]
    wrong = [verdict for address in addresses if (verdict := _try(address, context))]
    refused = [verdict for verdict in wrong if verdict[0] is AccessError]
    if refused or len(wrong) == len(addresses):
        return (refused or wrong)[0]
    protocol = config.kafka.security_protocol
    remedy = f"see its log, and whether its listener is kafka.security_protocol {protocol}"
    silent = BrokerError, f"does not answer ({_said(error)}); {remedy}"
    return _login(addresses, settings, config) or silent


def _said(error: BaseException) -> str:
    return told(next((one for one in chain(error) if is_unreachable(one)), error))


def _try(address: str, context: ssl.SSLContext | None) -> Verdict | None:
    """What is wrong with one address, as far as sockets can tell; None if nothing is."""
    place = _place(address)
    try:
        with socket.create_connection(place, PATIENCE_S) as plain:
            return _greet(plain, place[0], context)
    except socket.gaierror:
        return BrokerError, f"the host {place[0]} is not known; check NEWSIFT_KAFKA"
    except TimeoutError:
        return BrokerError, f"no answer within {PATIENCE_S:g} s; check the address and the firewall"
    except OSError as error:
        return BrokerError, f"nobody listens there ({error.strerror or error}); {START}"


def _greet(plain: socket.socket, host: str, context: ssl.SSLContext | None) -> Verdict | None:
    """What is wrong with the broker's TLS, or with ours that is missing: nothing else is sent."""
    greeting = context or ssl.create_default_context()
    if context is None:
        greeting.check_hostname, greeting.verify_mode = False, ssl.CERT_NONE
    try:
        with greeting.wrap_socket(plain, server_hostname=host):
            spoken = AccessError, "speaks TLS; set kafka.security_protocol to SSL or SASL_SSL"
            return None if context else spoken
    except OSError as error:
        said = tls_said(error) if isinstance(error, ssl.SSLError) else NO_TLS_SAID
        return (AccessError, said) if context else None


def _login(addresses: Sequence[str], settings: Mapping[str, Any], config: Config) -> Verdict | None:
    """Connect and log in, one address after the other, for the reason that the clients keep."""
    # A thread of its own: the caller may be a coroutine, whose event loop must not run another.
    with ThreadPoolExecutor(1) as thread:
        failed = thread.submit(asyncio.run, _logins(addresses, settings)).result()
    verdicts = [meaning(error, config) for error in failed]
    return next((verdict for verdict in verdicts if verdict), None)


async def _logins(addresses: Sequence[str], settings: Mapping[str, Any]) -> list[BaseException]:
    """What each address answers to a login, where it is not a welcome."""
    from aiokafka.conn import create_conn, log

    given = {key: value for key, value in settings.items() if key != "bootstrap_servers"}
    given["request_timeout_ms"] = round(PATIENCE_S * 1000)
    failed: list[BaseException] = []
    was, log.disabled = log.disabled, True
    for address in addresses:
        try:
            link = await create_conn(*_place(address), **given)
            try:
                if "sasl_mechanism" not in given:
                    await _answer(link)
            finally:
                link.close()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is explained or passed over
            failed.append(error)
    log.disabled = was
    return failed


async def _answer(link: Any) -> None:
    """Ask what any client may ask; a broker that wants a login first hangs up instead."""
    from aiokafka.errors import KafkaConnectionError
    from aiokafka.protocol.metadata import MetadataRequest

    try:
        await link.send(MetadataRequest([], allow_auto_topic_creation=False))
    except KafkaConnectionError:
        raise AccessError(NO_LOGIN) from None
