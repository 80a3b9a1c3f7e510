"""A file from the web: over https, or from this machine, bounded in bytes, time and redirects."""

import time
from http.client import HTTPResponse
from ipaddress import ip_address
from typing import BinaryIO
from urllib.parse import urljoin

from encoder.errors import InputError
from worker.actions.seeds.fetch import REDIRECTED, REDIRECTS, Bounds, opened, web_address
from worker.actions.seeds.proxy import literal
from worker.actions.told import ProgressLine

LARGEST = 2**30  # bytes
SECONDS = 1800.0
PIECE = 2**16
REQUEST = {"User-Agent": "newsift (models)", "Accept-Encoding": "identity", "Connection": "close"}


def download(url: str, file: BinaryIO, largest: int = LARGEST, seconds: float = SECONDS) -> None:
    """Write what is behind an address to a file; what it has to be is for its digest to say."""
    until, secure = time.monotonic() + seconds, False
    for _ in range(REDIRECTS + 1):
        secure = _secure(url, secure)
        left = Bounds(max(until - time.monotonic(), 0), largest, allow=lambda _: True)
        with opened(url, left, REQUEST) as answer:
            there = answer.getheader("Location")
            if answer.status not in REDIRECTED or not there:
                return _copy(url, answer, file, largest, until)
            url = urljoin(url, there)
    raise InputError(f"{url}: redirects more than {REDIRECTS} times; give the last address")


def _secure(url: str, before: bool) -> bool:
    """Whether an address is https; refused is what is neither that nor this machine all along."""
    parts = web_address(url)
    address = literal(parts.hostname or "")
    if parts.scheme == "https":
        return True
    if before or address is None or not ip_address(address.partition("%")[0]).is_loopback:
        raise InputError(f"{url}: is not https://; a model comes over https, or from localhost")
    return False


def _copy(url: str, answer: HTTPResponse, file: BinaryIO, largest: int, until: float) -> None:
    if answer.status != 200:
        raise InputError(f"{url}: answers {answer.status} {answer.reason}; check the address")
    line, expected = ProgressLine(), answer.length or 0
    while line.done + (answer.length or 0) <= largest:
        piece = answer.read(PIECE)
        if not piece:
            break
        _write(piece, file)
        line.add(len(piece), "bytes")
    else:
        raise InputError(f"{url}: is larger than {largest / 2**20:g} MiB, more than a model may be")
    if time.monotonic() > until:
        raise InputError(f"{url}: took too long; fetch the file by other means and add that")
    if line.done < expected:
        raise InputError(f"{url}: ends {expected - line.done} bytes early; try again")


def _write(piece: bytes, file: BinaryIO) -> None:
    """Write a piece; a disk that is full is no fault of the web."""
    try:
        file.write(piece)
        file.flush()
    except OSError as error:
        raise InputError(f"{file.name}: cannot be written ({error.strerror}); make room") from error
