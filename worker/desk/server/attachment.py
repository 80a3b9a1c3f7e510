"""A file as an answer: the browser saves it, and shows nothing of it."""

import asyncio
import logging
import os
import re
from dataclasses import dataclass
from typing import IO
from urllib.parse import quote

from aiohttp import web

from worker.watch.site import FRESH

PIECE = 2**18  # bytes that are read at once
STUCK_S = 60.0  # for one piece, after which a reader is taken to be gone
LONGEST = 100  # characters of a file's name
ODD = re.compile(r"[^\w.]+")
log = logging.getLogger("newsift.desk")


@dataclass(frozen=True, slots=True)
class Attachment:
    """What a file is called and holds, and its content, closed once it is sent."""

    name: str
    kind: str
    content: IO[bytes]

    @property
    def headers(self) -> dict[str, str]:
        """What a browser needs to save it under a name that is no path, in any letters."""
        name = ODD.sub("-", self.name)[-LONGEST:].strip("-.")
        plain = name.encode("ascii", "ignore").decode()
        said = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
        return FRESH | {"Content-Type": self.kind, "Content-Disposition": said}


async def sent(request: web.Request, file: Attachment) -> web.StreamResponse:
    """Send a file piece by piece, as fast as it is taken; who takes nothing any more is left."""
    response = web.StreamResponse(headers=file.headers)
    with file.content as content:
        response.content_length = content.seek(0, os.SEEK_END)
        content.seek(0)
        try:
            await response.prepare(request)
            while piece := await asyncio.to_thread(content.read, PIECE):
                async with asyncio.timeout(STUCK_S):
                    await response.write(piece)
        except (OSError, TimeoutError) as error:
            log.info("%s was not taken to its end (%s)", request.path, type(error).__name__)
            if request.transport is not None:
                request.transport.abort()
    return response
