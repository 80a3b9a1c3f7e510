"""Running: the parts of a command that goes on until somebody ends it, and their orderly end."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Protocol

from worker.cli.signals import heed

Leave = Callable[[BaseException | None], None]


class Part(Protocol):
    """Something that runs for as long as the command does."""

    async def start(self) -> None:
        """Get ready."""

    async def run(self) -> None:
        """Do its work for as long as this is awaited."""

    async def stop(self) -> None:
        """End in order; harmless if it never began."""


async def live(make: Callable[[Leave], Sequence[Part]]) -> BaseException | None:
    """Run parts until a signal comes or one of them fails, and say why it ended; None: in order.

    `make` is given what ends them.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[BaseException | None] = loop.create_future()

    def leave(error: BaseException | None) -> None:
        if not ended.done():
            ended.set_result(error)

    heed(loop, lambda kind: leave(KeyboardInterrupt() if kind == signal.SIGINT else None))
    parts = make(leave)
    work = asyncio.create_task(_work(parts))
    work.add_done_callback(lambda done: None if done.cancelled() else leave(done.exception()))
    why_ended = await ended
    work.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await work
    for part in parts:
        await part.stop()
    return why_ended


async def _work(parts: Sequence[Part]) -> None:
    for part in parts:
        await part.start()
    await together(*(part.run() for part in parts))


async def together(*works: Coroutine[None, None, None]) -> None:
    """Do these at once; the first that fails ends the others, and is what is raised."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for work in works:
                tasks.create_task(work)
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
