"""An attack: poison between neighbours, and what must hold when it is over.

    with attacked(target) as attack:
        attack.posts([poison])
    attack.refused("bad_json", 1)

On leaving the block the neighbours' matches have arrived, all is committed, the worker is the same
process, it has answered throughout, and its memory has stayed within bounds.
"""

import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.broker.clients import until
from tests.hostile.process_watch import Witness, cpu_seconds, peak_memory
from tests.hostile.target import ARTICLE, MIB, PARTITIONS, Target, post

ARRIVES_WITHIN_S = 20.0
DRAINS_WITHIN_S = 60.0
ANSWERS_WITHIN_S = 5.0
MAX_MEMORY = 1536 * MIB

_numbers = itertools.count()


class Attack:
    def __init__(self, target: Target) -> None:
        self.target = target
        self._from = {place.partition: end for place, end in target.ends().items()}
        self._began = cpu_seconds(target.pid)
        self.cpu_s = 0.0

    def posts(self, values: Iterable[bytes | None], **how: Any) -> None:
        self.target.write("posts", values, **how)

    def neighbours(self) -> set[bytes]:
        ids = [f"neighbour-{next(_numbers)}" for _ in range(PARTITIONS)]
        for partition, name in enumerate(ids):
            self.target.write("posts", [post(name, ARTICLE)], partition=partition)
        return {name.encode() for name in ids}

    def arrived(self, ids: set[bytes]) -> None:
        def all_there() -> bool:
            assert self.target.worker.alive(), f"the worker has ended:\n{self.output}"
            return ids <= {record.key for record in self.target.matches.look()}

        try:
            until(all_there, ARRIVES_WITHIN_S)
        except AssertionError as error:
            raise AssertionError(
                f"the neighbours' matches did not come: {error}\n{self.output}"
            ) from None

    def drained(self) -> None:
        until(lambda: self.target.lag() == 0, DRAINS_WITHIN_S)
        self.cpu_s = cpu_seconds(self.target.pid) - self._began

    @property
    def letters(self) -> list[Any]:
        result = (letter for letter in self.target.rejected.look() if self._is_ours(letter))
        return sorted(result, key=source)

    def _is_ours(self, letter: Any) -> bool:
        partition, offset = source(letter)
        return offset >= self._from[partition]

    @property
    def output(self) -> str:
        return self.target.worker.output[-4000:]

    def refused(self, reason: str, count: int = 1) -> list[Any]:
        assert self.reasons(count) == [reason] * count
        return self.letters

    def reasons(self, count: int) -> list[str]:
        until(lambda: len(self.letters) >= count, ARRIVES_WITHIN_S)
        return [headers(letter)["reason"] for letter in self.letters]


@contextmanager
def attacked(target: Target) -> Iterator[Attack]:
    """Attack a worker with neighbours on both sides, and hold it to what it promises."""
    attack = Attack(target)
    with Witness(target.port) as witness:
        ids = attack.neighbours()
        yield attack
        ids |= attack.neighbours()
        attack.arrived(ids)
        attack.drained()
        silence = witness.longest_silence
    assert silence < ANSWERS_WITHIN_S, f"/healthz was silent for {silence:.1f} s"
    assert target.worker.alive(), attack.output
    assert target.worker.output.count("ready:") == 1, "the worker has started again"
    peak = peak_memory(target.pid)
    assert peak <= MAX_MEMORY, f"{peak / MIB:.0f} MiB at the most"


def headers(record: Any) -> dict[str, str]:
    return {name: value.decode() for name, value in record.headers}


def source(letter: Any) -> tuple[int, int]:
    """The partition and the offset of the post that a dead letter stands for."""
    _, partition, offset = headers(letter)["source"].rsplit("-", 2)
    return int(partition), int(offset)
