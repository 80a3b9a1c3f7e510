"""`newsift broker` in the foreground."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka import KafkaAdminClient

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
