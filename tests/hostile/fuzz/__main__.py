"""Feed targets and print what came of it.

Input n of a target is always the same: `--target posts --start 4711 --inputs 1` repeats one. A
longer run goes on where the last one ended with `--start`.
"""

import argparse
import sys

from tests.hostile.fuzz.run import Report, fuzz
from tests.hostile.fuzz.target import NAMES

COLUMNS = f"{'target':<10}{'from':>9}{'inputs':>10}{'refused':>10}{'ms a KB':>9}{'failures':>10}"


def main(arguments: list[str]) -> int:
    options = parsed(arguments)
    names = options.target or list(NAMES)
    say(COLUMNS)
    reports = []
    for name in names:
        reports.append(fuzz(name, options.seconds / len(names), options.start, options.inputs))
        say(row(reports[-1]))
    for report in reports:
        for failure in report.failures:
            say(f"FAILED {failure}")
    return int(any(report.failures for report in reports))


def row(report: Report) -> str:
    return (
        f"{report.name:<10}{report.start:>9}{report.inputs:>10}{report.refused:>10}"
        f"{report.slowest:>9.2f}{len(report.failures):>10}"
    )


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.hostile.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="in all, shared by the targets")
    parser.add_argument("--target", action="append", choices=NAMES, help="this one alone")
    parser.add_argument("--start", type=int, default=0, help="the number of the first input")
    parser.add_argument("--inputs", type=int, default=2**62, help="of each target, at the most")
    return parser.parse_args(arguments)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
