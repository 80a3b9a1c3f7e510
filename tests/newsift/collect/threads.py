"""A server of a test in a thread of its own, for clients in other processes."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar

S = TypeVar("S")
Call = Callable[[Coroutine[Any, Any, None]], None]


@contextmanager
def in_a_thread(opened: AbstractAsyncContextManager[S]) -> Iterator[tuple[S, Call]]:
    """What was opened, and how to have it do something."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def wait_for(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(60)

    try:
        side = wait_for(opened.__aenter__())
        yield side, wait_for
        wait_for(opened.__aexit__(None, None, None))
        wait_for(_settled())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _settled() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
