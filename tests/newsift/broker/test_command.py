"""`newsift broker` in the foreground."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner
from kafka import KafkaAdminClient

from newsift.broker.log import LARGEST, MOST_RECORDS
from newsift.broker.settings import MIB, Settings
from newsift.broker.wire import LONGEST_QUESTION, MOST_NAMED
from newsift.cli.broker import broker

NEWSIFT = [sys.executable, "-c", "from newsift.cli import main; main()", "broker"]


@contextmanager
def started(*options: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [*NEWSIFT, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_prints_its_address_and_ends_on_a_signal(number: int) -> None:
    with started("--port", "0", "--partitions", "3") as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with KafkaAdminClient(bootstrap_servers=address) as admin:
            assert admin.list_topics() == []
        process.send_signal(number)
        _, message = process.communicate(timeout=60)
        assert process.returncode == 0
        assert (
            message == f"A Kafka broker in memory, at {address}; Ctrl-C ends it and all it holds.\n"
        )


def test_the_help_states_the_limits() -> None:
    text = " ".join(CliRunner().invoke(broker, ["--help"]).output.split())
    for limit in ("in memory", "One node", "No TLS", "No transactions", "--retention-mb"):
        assert limit in text
    at = Settings()
    assert f"at most {at.max_request_bytes // MIB} MiB ({LONGEST_QUESTION // MIB} MiB" in text
    assert f"at most {MOST_NAMED:,} things" in text
    assert f"unpacks to at most {LARGEST // MIB} MiB and {MOST_RECORDS:,} records" in text
    assert f"{at.max_connections} connections. Each has {at.frame_s:g} s" in text
    assert f"{at.idle_s / 60:g} minutes between" in text
    assert f"together has at most {at.held_bytes // MIB} MiB" in text
