"""The workers' own web servers, asked from elsewhere: bounded in number, in size and in time."""

import time
from http.client import HTTPConnection, HTTPException

import msgspec

from worker.config import Config

MOST = 64  # workers that are asked
LARGEST = 2**24  # bytes of an answer
# What an answer raises that is none, or of something else.
WRONG = (OSError, HTTPException, msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError)


def workers_of(config: Config) -> list[str]:
    """The addresses that desk.workers names."""
    return [each.strip() for each in config.desk.workers.split(",")][:MOST]


def answer_of(address: str, path: str, seconds: float) -> tuple[int, bytes]:
    """The status and the body of an answer, as far as it is not too large; refused if too slow."""
    host, _, port = address.rpartition(":")
    link = HTTPConnection(host.strip("[]"), int(port), timeout=seconds)
    try:
        link.request("GET", path)
        answer = link.getresponse()
        found, ends_at = bytearray(), time.monotonic() + seconds
        while (piece := answer.read1(2**16)) and len(found) < LARGEST:
            if time.monotonic() > ends_at:
                raise TimeoutError("too slow")
            found += piece
        return answer.status, bytes(found)
    finally:
        link.close()
