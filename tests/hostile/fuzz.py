"""Damaged input without end: `python -m tests.hostile.fuzz --seconds 60 [--target posts]`.

Input n of a target is always the same: `--target posts --start 4711 --inputs 1` repeats one. An
input that ends the process, or holds it for HANGS_AFTER_S, is the last of the file that is named.
"""
# ruff: noqa: T201 - a command that prints a table

import argparse
import faulthandler
import os
import random
import sys
import tempfile
import time
import traceback

from tests.hostile.fuzz_targets import TARGETS, Target

HANGS_AFTER_S = 60.0
MAX_FAILURES = 20
MAX_STEPS, MAX_RUN = 6, 2**16
EDGES = [
    (edge & (2 ** (8 * size) - 1)).to_bytes(size, order)
    for size in (1, 2, 4, 8)
    for edge in (0, 1, -1, 2 ** (8 * size - 1) - 1, 2 ** (8 * size - 1), 127, 128, 255)
    for order in ("big", "little")
]


def made(target: Target, name: str, number: int) -> bytes:
    """The input of this number: now and then one of the corpus as it is."""
    rng = random.Random(f"{name}:{number}")
    data = bytearray(rng.choice(target.corpus))
    for _ in range(rng.randint(0, MAX_STEPS)):
        damage(rng, data, target)
        del data[target.largest :]
    return bytes(data)


def damage(rng: random.Random, data: bytearray, target: Target) -> None:
    """Flip, cut, insert, overwrite, splice or repeat something somewhere."""
    at, token, other = rng.randint(0, len(data)), rng.choice(target.tokens), target.corpus
    span = slice(at, at + rng.choice([1, 2, 4, 16, 64, 1024, len(data)]))
    match rng.randrange(8):
        case 0 if data:
            data[min(at, len(data) - 1)] ^= 1 << rng.randrange(8)
        case 1:
            del data[span]
        case 2:
            del data[at:]
        case 3 | 4:
            data[at:at] = token
        case 5:
            data[span] = rng.choice([token, rng.choice(EDGES)])
        case 6:
            data[at:at] = bytearray(rng.choice(other))[span]
        case _:
            run = (bytes(data[span]) if rng.random() < 0.5 else token) or b"\0"
            data[at:at] = run * min(2 ** rng.randint(1, 14), MAX_RUN // len(run) + 1)


def failure_of(target: Target, data: bytes) -> str:
    """What is wrong with the reading of an input; nothing if it is taken or refused in time."""
    try:
        cost = priced(target, data)
        if cost > target.ms_per_kb:  # a look at the clock may come at a bad time: the best of some
            cost = min(cost, *(priced(target, data) for _ in range(3)))
    except Exception as error:  # noqa: BLE001 - whatever comes out of it is what we look for
        return f"{type(error).__name__}: {error} ({traceback.extract_tb(error.__traceback__)[-1]})"
    limit = f"more than {target.ms_per_kb:g} ({len(data)} bytes)"
    return f"costs {cost:.1f} ms a KB, {limit}" if cost > target.ms_per_kb else ""


def priced(target: Target, data: bytes) -> float:
    """The milliseconds of CPU that an input costs for each KB."""
    began = time.process_time()
    target.feed(data)
    return (time.process_time() - began) * 1000 / max(1, len(data) / 1024)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.hostile.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="in all, shared by the targets")
    parser.add_argument("--target", action="append", choices=TARGETS, help="this one alone")
    parser.add_argument("--start", type=int, default=0, help="the number of the first input")
    parser.add_argument("--inputs", type=int, default=2**62, help="of each target, at the most")
    options = parser.parse_args()
    names, failures = options.target or list(TARGETS), list[str]()
    with tempfile.NamedTemporaryFile(prefix="newsift-fuzz-", delete=False) as file:
        print(f"the number of the last input is in {file.name}", flush=True)
        for name in names:
            target = TARGETS[name]()
            for data in target.corpus:
                target.feed(data)  # whatever is compiled or imported late is there by now
            ends_at, number = time.monotonic() + options.seconds / len(names), options.start
            before = len(failures)
            while time.monotonic() < ends_at and number < options.start + options.inputs:
                os.pwrite(file.fileno(), f"{name} {number:<12}\n".encode(), 0)
                faulthandler.dump_traceback_later(HANGS_AFTER_S, exit=True)
                if failure := failure_of(target, made(target, name, number)):
                    failures.append(f"{name} {number}: {failure[:500]}")
                number += 1
                if len(failures) - before >= MAX_FAILURES:
                    break
            faulthandler.cancel_dump_traceback_later()
            print(f"{name}: {number - options.start:,} inputs", flush=True)
    for failure in failures:
        print(f"FAILED {failure}")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
