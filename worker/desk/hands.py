"""The hands: a few threads that answer, and that the end of the desk does not wait for."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Hands(Executor):
    """Threads that are gone with the process: a broker that does not answer keeps none of them."""

    def __init__(self, count: int) -> None:
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._count = count
        for number in range(count):
            Thread(target=self._serve, name=f"desk-{number}", daemon=True).start()

    def submit(self, does: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have something done, as soon as a hand is free."""
        future: Future[T] = Future()
        self._work.put(partial(_fulfil, future, partial(does, *args, **kwargs)))
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Take no more once what waits is done."""
        for _ in range(self._count):
            self._work.put(None)

    def _serve(self) -> None:
        while work := self._work.get():
            work()


def _fulfil(future: "Future[T]", work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - whoever waits for the result is told
        future.set_exception(error)
