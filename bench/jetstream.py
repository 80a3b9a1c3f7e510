"""A Jetstream that replays synthetic events as fast as the client takes them: `python -m …`.

It prints its port. It speaks both interfaces as far as the collector uses them; see
docs/README.md §5 of https://github.com/bluesky-social/jetstream.
"""

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path

from aiohttp import web

from bench.texts import read_posts

V1, V2 = "/subscribe", "/xrpc/network.bsky.jetstream.subscribeEvents"
MAX_TEXTS = 20_000
FIRST_US = 1_779_719_009_000_000  # the time of the first event
INTERVAL_US = 700
CID = "bafyreidqpc7si3dbimffi64lz3xsx2qt45ip7rpna2qpslcddp23itjjzm"


def events(texts: Sequence[str], count: int, path: str) -> Iterator[str]:
    """Posts as one of the two interfaces sends them."""
    for number, text in enumerate(islice(cycle(texts), count)):
        time_us, did = FIRST_US + number * INTERVAL_US, f"did:plc:{number:024}"
        post = {"$type": "app.bsky.feed.post", "createdAt": time_of(time_us), "langs": ["en"],
                "text": text}  # fmt: skip
        commit = {"rev": "3mmoojpaqkn2z", "operation": "create", "cid": CID, "record": post,
                  "collection": "app.bsky.feed.post", "rkey": f"{number:013}"}  # fmt: skip
        yield encode_event(path, number, time_us, did, commit)


def encode_event(
    path: str, number: int, time_us: int, did: str, commit: Mapping[str, object]
) -> str:
    """An event as the interface at this path has it."""
    if path == V1:
        event = {"did": did, "time_us": time_us, "kind": "commit", "commit": commit}
    else:
        payload = {"$type": f"{V2.rpartition('/')[2]}#commit", "seq": number + 1, "did": did,
                "time": time_of(time_us), **commit}  # fmt: skip
        event = {"$type": "message", "payload": payload}
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))


def time_of(time_us: int) -> str:
    """A time as v2 writes it."""
    return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def serve(count: int, data: Path | None) -> None:
    """Serve until the process is ended."""
    texts, _ = read_posts(data, MAX_TEXTS)
    frames = {path: list(events(texts, count, path)) for path in (V1, V2)}

    async def subscribe(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("xrpc.v1.json",), compress=False)
        await socket.prepare(request)
        for text in frames[request.path]:
            await socket.send_str(text)
        await socket.receive()
        return socket

    app = web.Application()
    app.add_routes([web.get(path, subscribe) for path in (V1, V2)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)  # noqa: T201 - the parent process reads it
    await asyncio.Future()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None))
