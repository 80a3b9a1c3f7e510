"""Runs a reader of untrusted bytes in a subprocess with limits on time and memory.

Hostile bytes can keep the C code and the regular expressions of a reader busy for minutes, and
block all threads and signals of the process.
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

MAX_MEMORY_BYTES = 2**30  # an ordinary page or feed takes a fifth
MAX_SECONDS = 20.0
INPUT_ERROR_CODE = 2
PASSED_VARIABLES = (  # none holds a secret
    "PATH",
    "LANG",
    "TMPDIR",
    "LD_LIBRARY_PATH",
)


def run_in_subprocess(
    reader: Callable[..., Any], body: bytes, name: str, *arguments: str | None,
    seconds: float = MAX_SECONDS, remedy: str = "",
) -> bytes:  # fmt: skip
    """The result of `reader(body, name, *arguments)` as JSON. Raises InputError with the name."""
    # With the import path of this process.
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve()"
    call = [reader.__module__, reader.__name__, [name, *arguments], seconds, MAX_MEMORY_BYTES]
    try:
        process = subprocess.run(
            [sys.executable, "-P", "-c", code], input=json.dumps(call).encode() + b"\n" + body,
            env={name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ},
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise InputError(f"{name}: takes longer than {seconds:g} s to read{remedy}") from None
    if process.returncode == INPUT_ERROR_CODE:
        raise InputError(process.stdout.decode())
    if process.returncode:
        raise InputError(f"{name}: takes too much memory or time to read{remedy}")
    return process.stdout


def serve() -> None:
    """The subprocess: reads standard input, writes standard output."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    call, _, body = sys.stdin.buffer.read().partition(b"\n")
    module, function, arguments, seconds, memory = json.loads(call)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    # Ends this process even if its parent has died.
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 1))
    try:
        result = getattr(import_module(module), function)(body, *arguments)
        sys.stdout.buffer.write(msgspec.json.encode(result))
    except InputError as error:
        sys.stdout.buffer.write(str(error).encode("utf-8", "backslashreplace"))
        sys.exit(INPUT_ERROR_CODE)
