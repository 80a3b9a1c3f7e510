"""Runs the services of a long-running command until a signal arrives or one of them fails."""

import asyncio
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event
from typing import Protocol

from newsift.cli.signals import on_interrupt


class Service(Protocol):
    async def start(self) -> None:
        """Called once; `stop` is called even if it fails."""

    async def run(self) -> None:
        """Runs until it is cancelled."""

    async def stop(self) -> None:
        """Has no effect if the service never started."""


class ThreadService:
    """Runs a function in a thread; the function ends once the event is set."""

    def __init__(self, work: Callable[[Event], None]) -> None:
        self._work, self._end = work, Event()

    async def start(self) -> None: ...

    async def run(self) -> None:
        await asyncio.to_thread(self._work, self._end)

    async def stop(self) -> None:
        self._end.set()


async def run_services(services: Sequence[Service]) -> BaseException | None:
    """Returns the error that ended the services; None after SIGTERM or another regular end."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[BaseException | None] = loop.create_future()

    def stop(error: BaseException | None) -> None:
        if not result.done():
            result.set_result(error)

    on_interrupt(loop, lambda kind: stop(KeyboardInterrupt() if kind == signal.SIGINT else None))

    async def start_and_run() -> None:
        for part in services:
            await part.start()
        try:  # the first that fails cancels the others
            async with asyncio.TaskGroup() as tasks:
                for part in services:
                    tasks.create_task(part.run())
        except ExceptionGroup as group:
            raise group.exceptions[0] from None

    work = asyncio.create_task(start_and_run())
    work.add_done_callback(lambda task: None if task.cancelled() else stop(task.exception()))
    why_ended = await result
    work.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await work
    for part in services:
        await part.stop()
    return why_ended


async def run_until(end: Event, services: Sequence[Service]) -> None:
    """Runs services, in any thread, until the event is set; raises what one of them raises."""
    works = [asyncio.create_task(part.run()) for part in services]
    waiting = asyncio.create_task(asyncio.to_thread(end.wait))
    try:
        await asyncio.wait([waiting, *works], return_when=asyncio.FIRST_COMPLETED)
    finally:
        end.set()
        for part in services:
            await part.stop()
        await asyncio.gather(*works)
