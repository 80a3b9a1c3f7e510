"""Feed targets and print the failures.

Input n of a target is always the same: `--target posts --start 4711 --inputs 1` repeats one. A
longer run goes on where the last one ended with `--start`.
"""
# ruff: noqa: T201 - a command that prints a table

import argparse
import sys

from tests.hostile.fuzz.run import fuzz
from tests.hostile.fuzz.target import NAMES


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.hostile.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="in all, shared by the targets")
    parser.add_argument("--target", action="append", choices=NAMES, help="this one alone")
    parser.add_argument("--start", type=int, default=0, help="the number of the first input")
    parser.add_argument("--inputs", type=int, default=2**62, help="of each target, at the most")
    options = parser.parse_args()
    names, failures = options.target or list(NAMES), list[str]()
    print(f"{'target':<10}{'from':>9}{'inputs':>10}{'refused':>10}{'ms a KB':>9}{'failures':>10}")
    for name in names:
        report = fuzz(name, options.seconds / len(names), options.start, options.inputs)
        failures += report.failures
        print(
            f"{name:<10}{report.start:>9}{report.inputs:>10}{report.refused:>10}"
            f"{report.slowest:>9.2f}{len(report.failures):>10}", flush=True,
        )  # fmt: skip
    for failure in failures:
        print(f"FAILED {failure}")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
