"""Runs a reader of untrusted bytes in a process of its own, which can be ended.

Hostile bytes can keep the C code and the patterns of a reader busy for minutes, and no other thread
or signal of the process is served meanwhile.
"""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import msgspec

from encoder.errors import InputError

MEMORY = 2**30  # bytes; an ordinary page or feed takes a fifth
SECONDS = 20.0
INPUT_REFUSED = 2
ENVIRONMENT = ("PATH", "LANG", "TMPDIR", "LD_LIBRARY_PATH")


def command(module: str, *arguments: str) -> list[str]:
    """Runs `serve` of a module, with the modules of this process and none of the current folder."""
    start = f"import sys; sys.path[:] = {sys.path!r}; from {module} import serve; serve()"
    return [sys.executable, "-P", "-c", start, *arguments]


def environment() -> dict[str, str]:
    """What a reader needs, and no secret."""
    return {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}


def run_in_subprocess(
    reader: Callable[..., Any], body: bytes, *about: str | None, seconds: float = SECONDS,
    remedy: str = "",
) -> bytes:  # fmt: skip
    """The result of `reader(body, *about)` as JSON; `about` starts with the input's name."""
    head = json.dumps([reader.__module__, reader.__name__, about, seconds, MEMORY]).encode()
    try:
        process = subprocess.run(
            command(__name__), input=head + b"\n" + body, env=environment(),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise InputError(f"{about[0]}: takes longer than {seconds:g} s to read{remedy}") from None
    if process.returncode == INPUT_REFUSED:
        raise InputError(process.stdout.decode())
    if process.returncode:
        raise InputError(f"{about[0]}: costs too much to read{remedy}")
    return process.stdout


def serve() -> None:
    """The child process: reads standard input, writes standard output."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    head, _, body = sys.stdin.buffer.read().partition(b"\n")
    module, name, about, seconds, memory = json.loads(head)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    # Should whoever waits for us be gone, nobody else would end us.
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 1))
    try:
        result = getattr(import_module(module), name)(body, *about)
        sys.stdout.buffer.write(msgspec.json.encode(result))
    except InputError as error:
        sys.stdout.buffer.write(str(error).encode("utf-8", "backslashreplace"))
        sys.exit(INPUT_REFUSED)
