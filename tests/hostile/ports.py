"""Attack each HTTP port of newsift, and measure a neighbour's slowest answer and the memory.

python -m tests.hostile.ports [--seconds 5] [--server desk …] [--attack "slow headers" …]
"""

import argparse
import asyncio
import contextlib
import http.client
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.broker.kafka import free_ports
from tests.hostile.process_watch import peak_memory

BIN = Path(sys.executable).parent
MIB = 2**20
PIECE = 2**16
AT_ONCE = 8  # connections that send as fast as they can
MANY = 3000  # connections that stay half open
ANSWER_S, GROWTH = 0.1, 64 * MIB  # what promise 7 allows
GET = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
Attack = Callable[[int], Coroutine[None, None, None]]
Send = Callable[[asyncio.StreamWriter, asyncio.StreamReader], Awaitable[None]]


async def _forever(port: int, send: Send, pause_s: float = 0) -> None:
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                await send(writer, reader)
            finally:
                writer.transport.abort()
        await asyncio.sleep(pause_s)


def flood(lines: bytes, head: bytes = GET, repeat: int = 1) -> Attack:
    """Send a request with these lines again and again."""
    data = head + lines * repeat + b"\r\n\r\n"

    async def send(writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> None:
        for begin in range(0, len(data), PIECE):
            writer.write(data[begin : begin + PIECE])
            await writer.drain()
        await reader.read()

    async def attack(port: int) -> None:
        await asyncio.gather(*(_forever(port, send) for _ in range(AT_ONCE)))

    return attack


async def drip(port: int) -> None:
    """Send header lines one byte at a time, over many connections."""

    async def send(writer: asyncio.StreamWriter, _reader: asyncio.StreamReader) -> None:
        for byte in GET * 1000:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.05)

    await asyncio.gather(*(_forever(port, send) for _ in range(200)))


async def half_open(port: int) -> None:
    """Hold thousands of connections that have begun a request, and replace those that end."""

    async def send(writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> None:
        writer.write(GET)
        await reader.read()

    await asyncio.gather(*(_forever(port, send, 0.1) for _ in range(MANY)))


POST = b"POST /api/answer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
ATTACKS: dict[str, Attack | None] = {
    "nothing": None,
    "16 MiB of ;": flood(b"Cookie: " + b";" * 16 * MIB),
    "16 MiB of a=b;": flood(b"Cookie: " + b"a=b;" * 4 * MIB),
    "16 MiB of Host": flood(b"Host: 127.0.0.1\r\n", repeat=MIB),
    "a million headers": flood(b"A: b\r\n", repeat=1_000_000),
    "31 KiB of ;": flood(b"Cookie: " + b";" * 31 * 1024),
    "127 headers of 31 KiB": flood((b"A: " + b"b" * 240 + b"\r\n") * 126),
    "31 KiB of type": flood(b'Content-Length: 0\r\nContent-Type: a;"' + b';"' * 15_000, POST),
    "body of 16 MiB": flood(b"Content-Length: 16777216\r\n\r\n" + b"x" * 16 * MIB, POST),
    "chunks with trailers": flood(
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: b\r\n" * MIB, POST
    ),
    "pipelined requests": flood(b"\r\n" + GET + b"A: b", repeat=MIB // 4),
    "slow headers": drip,
    "half-open connections": half_open,
}


def attacking(attack: str, port: int) -> None:
    made = ATTACKS[attack]
    if made is not None:
        asyncio.run(made(port))
    time.sleep(3600)


@dataclass
class Port:
    name: str
    port: int
    pid: int
    path: str = "/healthz"
    headers: dict[str, str] = field(default_factory=dict)

    def ask(self, patience_s: float = 10.0) -> float:
        began = time.perf_counter()
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=patience_s)
        try:
            link.request("GET", self.path, headers=self.headers)
            answer = link.getresponse()
            answer.read()
            if answer.status != 200:
                raise ConnectionError(answer.status)
        finally:
            link.close()
        return time.perf_counter() - began

    def until_ready(self) -> None:
        for _ in range(600):
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.ask()
                return
            time.sleep(0.1)
        raise SystemExit(f"{self.name}: does not answer")


@contextlib.contextmanager
def ports(folder: Path) -> Iterator[list[Port]]:
    """Every HTTP server of newsift, on a broker of their own."""
    kafka, desk, worker, collect, away = free_ports(5)
    env = {k: v for k, v in os.environ.items() if not k.startswith("NEWSIFT_")} | {
        "NEWSIFT_KAFKA": f"127.0.0.1:{kafka}", "NEWSIFT_DESK__TOKEN": "a" * 32,
        "XDG_STATE_HOME": str(folder), "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    commands = {
        "worker": (worker, "faust -A worker worker"),
        "collect": (collect, f"newsift collect bluesky --url ws://127.0.0.1:{away}/subscribe"),
        "desk": (desk, f"newsift desk --port {desk}"),
    }
    with ExitStack() as stack:

        def start(name: str, command: str, **more: str) -> int:
            program, *arguments = command.split()
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen(
                [BIN / program, *arguments], env=env | more, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log,
            )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process.pid

        start("broker", f"newsift broker --port {kafka}")
        while subprocess.run(
            [BIN / "newsift", "topics", "create"], env=env, check=False
        ).returncode:
            time.sleep(0.5)
        servers = []
        for name, (port, command) in commands.items():
            servers.append(Port(name, port, start(name, command, NEWSIFT_WEB__PORT=str(port))))
        servers[-1].path = "/api/session"
        servers[-1].headers = {"Authorization": "Bearer " + "a" * 32}
        for each in servers:
            each.until_ready()
        time.sleep(10)  # until the desk has loaded its model
        yield servers


def measured(server: Port, attack: str, seconds: float) -> bool:
    """Attack a server, and print what its neighbour saw; whether it kept the promise."""
    Path(f"/proc/{server.pid}/clear_refs").write_text("5", "ascii")  # the peak begins here
    before = peak_memory(server.pid)
    process = multiprocessing.get_context("spawn").Process(
        target=attacking, args=(attack, server.port), daemon=True
    )
    process.start()
    time.sleep(2)  # until it has imported and connected
    times, failed = list[float](), 0
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        try:
            times.append(server.ask())
        except (OSError, http.client.HTTPException):
            failed += 1
        time.sleep(0.02)
    if not process.is_alive():
        raise SystemExit(f"{attack}: the attack ended with exit code {process.exitcode}")
    process.kill()
    process.join()
    growth = peak_memory(server.pid) - before
    slowest = max(times, default=float("inf"))
    good = slowest <= ANSWER_S and growth <= GROWTH and not failed
    print(  # noqa: T201
        f"{server.name:8} {attack:24} {len(times):5} {slowest * 1e3:8.1f} "
        f"{sum(each > ANSWER_S for each in times):5} "
        f"{failed:6} {growth / MIB:8.1f}{'' if good else '  *'}", flush=True,
    )  # fmt: skip
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--server", action="append", default=[])
    parser.add_argument("--attack", action="append", choices=ATTACKS, default=[])
    requests = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2 * MANY), hard))
    with tempfile.TemporaryDirectory() as scratch, ports(Path(scratch)) as servers:
        print("server   attack                 answers   max ms  late failed  MiB more")  # noqa: T201
        remaining = [
            measured(server, attack, requests.seconds)
            for server in servers
            if server.name in (requests.server or server.name)
            for attack in requests.attack or ATTACKS
        ]
    return int(not all(remaining))


if __name__ == "__main__":
    sys.exit(main())
