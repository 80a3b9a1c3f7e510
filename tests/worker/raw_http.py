"""What a web server sends over a connection, byte by byte."""

import asyncio
import contextlib
import json
from dataclasses import dataclass
from typing import Any

PATIENCE_S = 60.0


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @classmethod
    def of(cls, raw: bytes) -> "Reply":
        head, _, body = raw.partition(b"\r\n\r\n")
        first, *rows = head.decode().split("\r\n")
        named = (row.partition(": ") for row in rows)
        return cls(int(first.split()[1]), {k.lower(): v for k, _, v in named}, body)


async def read_all(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the server ends the connection."""
    result = b""
    with contextlib.suppress(ConnectionResetError):
        while some := await asyncio.wait_for(reader.read(2**16), PATIENCE_S):
            result += some
    return result
