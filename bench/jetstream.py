"""A Jetstream that replays made-up events as fast as the client takes them: `python -m …`.

It prints its port. It speaks both interfaces as far as the collector asks; see
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
TEXTS = 20_000
BASE = 1_779_719_009_000_000  # the time of the first event, in microseconds
STEP = 700  # microseconds from one to the next
CID = "bafyreidqpc7si3dbimffi64lz3xsx2qt45ip7rpna2qpslcddp23itjjzm"


def events(texts: Sequence[str], count: int, path: str) -> Iterator[str]:
    """Posts as one of the two interfaces sends them."""
    for number, text in enumerate(islice(cycle(texts), count)):
        at, did = BASE + number * STEP, f"did:plc:{number:024}"
        post = {"$type": "app.bsky.feed.post", "createdAt": time_of(at), "langs": ["en"],
                "text": text}  # fmt: skip
        commit = {"rev": "3mmoojpaqkn2z", "operation": "create", "cid": CID, "record": post,
                  "collection": "app.bsky.feed.post", "rkey": f"{number:013}"}  # fmt: skip
        yield encode_event(path, number, at, did, commit)


def encode_event(path: str, number: int, at: int, did: str, commit: Mapping[str, object]) -> str:
    """An event as the interface at this path has it."""
    if path == V1:
        event = {"did": did, "time_us": at, "kind": "commit", "commit": commit}
    else:
        payload = {"$type": f"{V2.rpartition('/')[2]}#commit", "seq": number + 1, "did": did,
                "time": time_of(at), **commit}  # fmt: skip
        event = {"$type": "message", "payload": payload}
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))


def time_of(at: int) -> str:
    """A time as v2 writes it."""
    return datetime.fromtimestamp(at / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def serve(count: int, data: Path | None) -> None:
    """Serve until the process is ended."""
    texts, _ = read_posts(data, TEXTS)
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
